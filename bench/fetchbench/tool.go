package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// tool is one way to fetch a list of URLs into a directory.
type tool struct {
	name string
	how  string // what it was told, for readers
	argv func(list, dir string) []string
}

// fast are the tools on the healthy site: all with the same concurrency but
// wget, which knows none; Ebb without politeness.
func (b *bench) fast() []tool {
	self, _ := os.Executable()
	n := fmt.Sprint(parallel)
	return []tool{
		{"ebb fetch", "", func(list, dir string) []string {
			return []string{b.ebb, "fetch", "-i", list, "-o", dir, "--quiet", "--waive", "a benchmark on loopback", "--no-robots", "--policy", "scrape", "--concurrency", n, "--spacing", "-1ns"}
		}},
		{"wget", "", wget()},
		{"aria2c", "", aria2("-j", n, "--file-allocation=none")},
		{"colly", "", func(list, dir string) []string { return []string{self, "-colly", list, "-parallel", n, "-out", dir} }},
		{"curl --parallel", "", curl("--parallel-max", n)},
	}
}

// gentle are the tools on the fragile site, 5 requests at once where they can:
// each as it comes, and with three tries a page as its manual offers them.
func (b *bench) gentle() []tool {
	self, _ := os.Executable()
	scrapy := func(more ...string) func(list, dir string) []string {
		return func(list, dir string) []string {
			argv := []string{"scrapy", "runspider", "-L", "CRITICAL", filepath.Join(b.dir, "spider.py"), "-a", "list=" + list, "-a", "out=" + dir, "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=5"}
			return append(argv, more...)
		}
	}
	return []tool{
		{"ebb fetch", "as it comes: `polite`", func(list, dir string) []string { return []string{b.ebb, "fetch", "-i", list, "-o", dir, "--quiet"} }},
		{"wget", "as it comes", wget()},
		{"", "`--tries=3 --retry-on-http-error=503 --waitretry=10`", wget("--tries=3", "--retry-on-http-error=503", "--waitretry=10")},
		{"aria2c", "as it comes", aria2()},
		{"", "`--max-tries=3 --retry-wait=5`", aria2("--max-tries=3", "--retry-wait=5")},
		{"colly", "as it comes; it has no retries", func(list, dir string) []string { return []string{self, "-colly", list, "-parallel", "5", "-out", dir} }},
		{"curl --parallel", "`--parallel-max 5`", curl("--parallel-max", "5")},
		{"", "`--parallel-max 5 --retry 2`", curl("--parallel-max", "5", "--retry", "2")},
		{"scrapy", "as it comes: 3 tries at once", scrapy()},
		{"", "`AUTOTHROTTLE_ENABLED=1`", scrapy("-s", "AUTOTHROTTLE_ENABLED=1")},
	}
}

func wget(more ...string) func(list, dir string) []string {
	return func(list, dir string) []string {
		return append([]string{"wget", "-q", "-x", "-i", list, "-P", dir}, more...)
	}
}

func aria2(more ...string) func(list, dir string) []string {
	return func(list, dir string) []string {
		return append([]string{"aria2c", "-q", "-i", list, "-d", dir, "--auto-file-renaming=false", "--summary-interval=0"}, more...)
	}
}

func curl(more ...string) func(list, dir string) []string {
	return func(list, dir string) []string {
		return append([]string{"curl", "-s", "--parallel", "--create-dirs", "-K", list + ".curl", "--output-dir", dir}, more...)
	}
}

const spider = `
import os, scrapy
class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"TELNETCONSOLE_ENABLED": False}
    def start_requests(self):
        os.makedirs(os.path.join(self.out, "p"), exist_ok=True)
        for line in open(self.list):
            yield scrapy.Request(line.strip())
    def parse(self, response):
        with open(os.path.join(self.out, "p", response.url.rsplit("/", 1)[1]), "wb") as f:
            f.write(response.body)
`
