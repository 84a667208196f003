// Command contained is what the tests run in a container: a static binary
// with a verb for each thing that a container can do.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		os.Exit(64)
	}
	switch args[0] {
	case "print": // N lines, then exit CODE
		n, _ := strconv.Atoi(args[1])
		for i := range n {
			fmt.Printf("page %d\n", i+1)
			fmt.Fprintf(os.Stderr, "note %d\n", i+1)
		}
		code, _ := strconv.Atoi(args[2])
		os.Exit(code)
	case "wait": // until the file is there
		fmt.Println("page 1")
		for {
			if _, err := os.Stat(args[1]); err == nil {
				fmt.Println("page 2")
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	case "polite": // ends with 0 at the signal named
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("page 1")
		for s := range told {
			fmt.Println("told", s)
			if s.String() == args[1] {
				return
			}
		}
	case "eat": // memory, until somebody minds
		fmt.Println("page 1")
		var all [][]byte
		for {
			piece := make([]byte, 4<<20)
			for i := range piece {
				piece[i] = 1
			}
			all = append(all, piece)
			_ = len(all)
		}
	}
}
