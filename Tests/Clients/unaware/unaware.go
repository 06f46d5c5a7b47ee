// SPDX-License-Identifier: Apache-2.0

// Asks for URLs, and knows of no proxy.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, url := range os.Args[1:] {
		response, err := http.Get(url)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			panic(err)
		}
		fmt.Println("go", response.StatusCode, string(body))
	}
}
