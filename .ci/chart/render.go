// SPDX-License-Identifier: Apache-2.0

// Renders the templates of a Helm chart, for machines without Helm: text/template and sprig, which Helm is made of, and the
// functions that Helm adds. Standard input is a JSON object with Values, Release, Chart, Capabilities and templates (text by name); standard
// output is an object with the rendered text by name, or with an error. What a chart of ours does not use is not here.
package main

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type failure string

func (text failure) Error() string { return string(text) }

// The files of a chart that are no templates: .Files.Get.
type files map[string]string

func (all files) Get(name string) string { return all[name] }

func main() {
	var input struct {
		Values       map[string]interface{}
		Release      map[string]interface{}
		Chart        map[string]interface{}
		Capabilities map[string]interface{}
		Templates    map[string]string
		Files        files
	}
	write := func(value interface{}) { json.NewEncoder(os.Stdout).Encode(value) }
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		write(map[string]string{"error": err.Error()})
		return
	}
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["fromYaml"] = func(text string) (map[string]interface{}, error) {
		value := map[string]interface{}{}
		err := yaml.Unmarshal([]byte(text), &value)
		return value, err
	}
	functions["fromJsonArray"] = func(text string) ([]interface{}, error) {
		list := []interface{}{}
		err := json.Unmarshal([]byte(text), &list)
		return list, err
	}
	functions["fail"] = func(text string) (string, error) { return "", failure(text) }
	all.Funcs(functions)
	for name, text := range input.Templates {
		if _, err := all.New(name).Parse(text); err != nil {
			write(map[string]string{"error": err.Error()})
			return
		}
	}
	data := map[string]interface{}{"Values": input.Values, "Release": input.Release, "Chart": input.Chart, "Capabilities": input.Capabilities, "Files": input.Files}
	rendered := map[string]string{}
	for name := range input.Templates {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		var text strings.Builder
		if err := all.ExecuteTemplate(&text, name, data); err != nil {
			write(map[string]string{"error": err.Error()})
			return
		}
		rendered[name] = strings.ReplaceAll(text.String(), "<no value>", "")
	}
	write(map[string]interface{}{"rendered": rendered})
}
