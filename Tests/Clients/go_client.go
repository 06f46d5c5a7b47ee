// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func through(proxy string) *http.Client {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(os.Getenv("CA"))
	check(err)
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	if proxy != "" {
		address, err := url.Parse(proxy)
		check(err)
		transport.Proxy = http.ProxyURL(address)
	}
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func ask(client *http.Client, method, address string, body io.Reader, fields ...string) ([]byte, *http.Response) {
	request, err := http.NewRequest(method, address, body)
	check(err)
	for index := 0; index+1 < len(fields); index += 2 {
		request.Header.Set(fields[index], fields[index+1])
	}
	answer, err := client.Do(request)
	check(err)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	check(err)
	return all, answer
}

func main() {
	base := os.Getenv("BASE")
	client := through(os.Getenv("PROXY"))
	tell := func(action string, client *http.Client, method, address string, body io.Reader) {
		all, answer := ask(client, method, address, body)
		fmt.Println(action, string(all), answer.StatusCode)
	}
	tell("get", client, "GET", base+"/hello", nil)
	tell("post", client, "POST", base+"/echo", strings.NewReader("some fields"))
	proxy := os.Getenv("AUTH_PROXY")
	_, refused := ask(through(proxy), "GET", base+"/hello", nil)
	_, known := ask(through(strings.Replace(proxy, "://", "://user:password@", 1)), "GET", base+"/hello", nil)
	fmt.Println("auth", refused.StatusCode, known.StatusCode)
	large, _ := ask(client, "GET", base+"/large", nil)
	fmt.Printf("download %x\n", sha256.Sum256(large))
	part, err := os.ReadFile(os.Getenv("PART"))
	check(err)
	rest, _ := ask(client, "GET", base+"/large", nil, "Range", fmt.Sprintf("bytes=%d-", len(part)))
	fmt.Printf("resume %x\n", sha256.Sum256(bytes.Join([][]byte{part, rest}, nil)))
	file, err := os.Open(os.Getenv("UPLOAD"))
	check(err)
	// A file has no length for net/http: the body is chunked.
	sent, _ := ask(client, "PUT", base+"/upload", file)
	fmt.Println("upload", string(sent))
	all, answer := ask(client, "GET", base+"/redirect", nil)
	fmt.Println("redirect", string(all), answer.StatusCode, answer.Request.URL)
	all, answer = ask(client, "GET", os.Getenv("WRONG")+"/hello", nil)
	var problem struct{ Error string }
	check(json.Unmarshal(all, &problem))
	fmt.Println("error", answer.StatusCode, problem.Error)
	for number := 1; number <= 2; number++ {
		ask(client, "GET", fmt.Sprintf("%s/keep/%s/%d", base, os.Getenv("NAME"), number), nil)
	}
	fmt.Println("keep done")
	tell("intercept", client, "GET", os.Getenv("INNER")+"/hello", nil)
	if _, err := client.Get(os.Getenv("SECURE") + "/hello"); err != nil {
		// net/http tells the reason phrase of a CONNECT that was refused, not its status.
		fmt.Println("connect", map[bool]string{true: "403"}[strings.Contains(err.Error(), "Forbidden")])
	}
	tell("gateway", through(""), "GET", os.Getenv("GATEWAY")+"/hello", nil)
	tell("tls", through(os.Getenv("TLS_PROXY")), "GET", base+"/hello", nil)
}
