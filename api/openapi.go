package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// document is OpenAPI 3.1 of the table of routes.
func (s *server) document() ([]byte, error) {
	parts := schemas{}
	paths := object{}
	for i := range s.routes {
		r := &s.routes[i]
		path, ok := paths[r.path].(object)
		if !ok {
			path = object{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = r.operation(parts)
	}
	for path, summary := range map[string]string{"/healthz": "Tell that the server runs", "/readyz": "Tell whether the server can do its work"} {
		answers := object{"200": answer("it is so", parts.of(reflect.TypeFor[health]())), "4XX": refused(parts, "refused")}
		if path == "/readyz" {
			answers["503"] = answer("it cannot", parts.of(reflect.TypeFor[health]()))
		}
		paths[path] = object{"get": object{
			"operationId": strings.TrimPrefix(path, "/"), "summary": summary, "tags": []string{"server"}, "security": []object{}, "responses": answers,
		}}
	}
	version := s.Version
	if version == "" {
		version = "devel"
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Ebb", "version": version,
			"description": "Ebb finishes work that fails, without hammering what is failing.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"token": []string{}}},
		"tags":     tags(s.routes),
		"paths":    paths,
		"components": object{
			"schemas":         parts,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", "  ")
}

// nouns says what the tags are.
var nouns = map[string]string{
	"jobs": "pieces of work", "recent": "how jobs ended lately", "workers": "processes that run jobs", "queues": "where jobs wait", "kinds": "what handles jobs", "targets": "whom jobs call, and what guards them",
	"periodics": "schedules that enqueue", "dead": "jobs that failed for good, or wait for a person", "redrives": "orders to queue them again",
	"policies": "what is promised", "simulations": "what policies would do", "audit": "who ordered what", "tokens": "who may ask", "leases": "work for workers of any language",
	"endpoints": "where webhooks go", "events": "what webhooks tell", "deliveries": "events on their way to endpoints",
	"fetches": "many pages, fetched until the account adds up", "documents": "documents on their way through a model",
	"runs": "long processes, restarted until they are done and proven", "campaigns": "runs of many sources, one after the other",
}

func tags(routes []route) []object {
	list, seen := []object{}, map[string]bool{}
	for i := range routes {
		if tag := routes[i].tag(); !seen[tag] {
			seen[tag] = true
			list = append(list, object{"name": tag, "description": nouns[tag]})
		}
	}
	return append(list, object{"name": "server", "description": "the server itself"})
}

// tag is the noun after /v1.
func (r *route) tag() string { return strings.Split(r.path, "/")[2] }

func (r *route) operation(parts schemas) object {
	o := object{
		"operationId": r.id, "summary": r.summary, "tags": []string{r.tag()},
		"description": fmt.Sprintf("Needs the scope %s.", r.scope),
	}
	parameters := parametersOf(parts, r.in)
	if r.once {
		parameters = append(parameters, object{
			"name": keyHeader, "in": "header", "schema": object{"type": "string", "maxLength": maxKey},
			"description": "the same key with the same request is done once, and answered alike for 24 h",
		})
	}
	if len(parameters) > 0 {
		o["parameters"] = parameters
	}
	if body, ok := r.in.FieldByName("Body"); ok {
		o["requestBody"] = object{
			"required": !optional(body.Type),
			"content":  object{"application/json": object{"schema": parts.of(body.Type)}},
		}
	}
	answers := object{
		"401": refused(parts, "no token, or one that does not open"),
		"403": refused(parts, "the scope "+string(r.scope)+" is missing"),
		"4XX": refused(parts, "refused; code says why"),
		"5XX": refused(parts, "the store could not be reached"),
	}
	if r.status == http.StatusNoContent {
		answers["204"] = object{"description": "done"}
	} else {
		answers[strconv.Itoa(r.status)] = answer("done", parts.of(r.out))
	}
	o["responses"] = answers
	return o
}

func answer(text string, schema object) object {
	return object{"description": text, "content": object{"application/json": object{"schema": schema}}}
}

func refused(parts schemas, text string) object {
	return object{"description": text, "content": object{"application/problem+json": object{"schema": parts.of(reflect.TypeFor[Problem]())}}}
}

// parametersOf describes the fields that come from path and query.
func parametersOf(parts schemas, t reflect.Type) []object {
	var list []object
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, parametersOf(parts, f.Type)...)
			continue
		}
		var p object
		if name := f.Tag.Get("path"); name != "" {
			p = object{"name": name, "in": "path", "required": true, "schema": parts.of(f.Type)}
		} else if name := f.Tag.Get("query"); name != "" {
			p = object{"name": name, "in": "query", "schema": parts.of(f.Type)}
		} else if name := f.Tag.Get("header"); name != "" {
			p = object{"name": name, "in": "header", "schema": parts.of(f.Type)}
		} else {
			continue
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			p["description"] = doc
		}
		list = append(list, p)
	}
	return list
}
