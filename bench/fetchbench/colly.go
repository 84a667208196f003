package main

import (
	"bufio"
	"os"
	"path/filepath"

	"github.com/gocolly/colly/v2"
)

// runColly fetches a list as colly's manual shows: asynchronously, so many at
// once, every page into a file.
func runColly(list, dir string, parallel int) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	c := colly.NewCollector(colly.Async(true))
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: parallel}); err != nil {
		return err
	}
	c.OnResponse(func(r *colly.Response) {
		if err := r.Save(filepath.Join(dir, filepath.Base(r.Request.URL.Path))); err != nil {
			panic(err)
		}
	})
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if err := c.Visit(lines.Text()); err != nil {
			return err
		}
	}
	c.Wait()
	return lines.Err()
}
