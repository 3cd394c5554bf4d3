// The whole life of schemas through franz-go's sr: go run . URL
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	first  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"x","type":"int"}]}`
	second = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"x","type":"int"},{"name":"y","type":"int","default":1}]}`
	bad    = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"z","type":"int"}]}`
	basket = `{"type":"record","name":"Basket","fields":[{"name":"o","type":"shop.Order"}]}`
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(os.Args[1])))
	one := must(client.CreateSchema(ctx, "go-avro", sr.Schema{Schema: first}))
	two := must(client.CreateSchema(ctx, "go-avro", sr.Schema{Schema: second}))
	check(one.ID != two.ID && two.Version == 2, "versions")
	check(must(client.SchemaByID(ctx, one.ID)).Schema == first, "schema by id")
	check(must(client.LookupSchema(ctx, "go-avro", sr.Schema{Schema: first})).ID == one.ID, "look up")
	check(len(must(client.SubjectVersions(ctx, "go-avro"))) == 2, "subject versions")
	check(!must(client.CheckCompatibility(ctx, "go-avro", -1, sr.Schema{Schema: bad})).Is, "compatibility")
	_, err := client.CreateSchema(ctx, "go-avro", sr.Schema{Schema: bad})
	check(err != nil, "an incompatible schema is refused")

	using := sr.Schema{Schema: basket, References: []sr.SchemaReference{{Name: "shop.Order", Subject: "go-avro", Version: 1}}}
	must(client.CreateSchema(ctx, "go-basket", using))
	check(len(must(client.SchemaReferences(ctx, "go-avro", 1))) == 1, "references")
	proto := sr.Schema{Schema: `syntax = "proto3"; message Order { int32 x = 1; }`, Type: sr.TypeProtobuf}
	check(must(client.CreateSchema(ctx, "go-proto", proto)).Version == 1, "protobuf")
	json := sr.Schema{Schema: `{"type":"object","properties":{"x":{"type":"integer"}}}`, Type: sr.TypeJSON}
	check(must(client.CreateSchema(ctx, "go-json", json)).Version == 1, "json")

	check(client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-avro")[0].Err == nil, "set level")
	check(client.Compatibility(ctx, "go-avro")[0].Level == sr.CompatFull, "level")
	check(client.ResetCompatibility(ctx, "go-avro")[0].Err == nil, "reset level")
	check(client.SetMode(ctx, sr.ModeReadOnly, "go-json")[0].Err == nil, "set mode")
	check(client.Mode(ctx, "go-json")[0].Mode == sr.ModeReadOnly, "mode")
	check(client.ResetMode(ctx, "go-json")[0].Err == nil, "reset mode")

	_, err = client.DeleteSubject(ctx, "go-avro", sr.SoftDelete)
	check(err != nil, "a subject that is referred to stays")
	must(client.DeleteSubject(ctx, "go-basket", sr.SoftDelete))
	must(client.DeleteSubject(ctx, "go-basket", sr.HardDelete))
	must(client.DeleteSubject(ctx, "go-avro", sr.SoftDelete))
	fmt.Println("ok")
}
