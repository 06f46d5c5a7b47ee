// SPDX-License-Identifier: Apache-2.0
// Go's net/http with its handler for files; HTTP/2 by ALPN, as it comes.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	files := http.StripPrefix("/files/", http.FileServer(http.Dir(os.Getenv("SITE"))))
	http.Handle("/files/", files)
	http.HandleFunc("/echo", func(answer http.ResponseWriter, request *http.Request) {
		io.Copy(answer, request.Body)
	})
	http.HandleFunc("/chunked", func(answer http.ResponseWriter, request *http.Request) {
		for number := 0; number < 3; number++ {
			io.WriteString(answer, "piece ")
			answer.(http.Flusher).Flush()
		}
	})
	http.HandleFunc("/refuse", func(answer http.ResponseWriter, request *http.Request) {
		http.Error(answer, "too large", http.StatusRequestEntityTooLarge)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.ServeTLS(listener, nil, os.Getenv("CERTIFICATE"), os.Getenv("KEY")))
}
