// The whole life of schemas through confluent-kafka-go's schemaregistry: go run . URL
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	sr "github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/rest"
)

const (
	first  = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"x","type":"int"}]}`
	second = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"x","type":"int"},{"name":"y","type":"int","default":1}]}`
	bad    = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"z","type":"int"}]}`
	basket = `{"type":"record","name":"Basket","fields":[{"name":"o","type":"shop.Order"}]}`
	proto  = `syntax = "proto3"; package shop; message Order { int32 x = 1; }`
	json   = `{"type":"object","properties":{"x":{"type":"integer"}}}`
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

func refused(err error, code int) bool {
	var answer *rest.Error
	return errors.As(err, &answer) && answer.Code == code
}

func main() {
	client := must(sr.NewClient(sr.NewConfig(os.Args[1])))
	one := must(client.RegisterFullResponse("cgo-avro", sr.SchemaInfo{Schema: first}, false))
	two := must(client.RegisterFullResponse("cgo-avro", sr.SchemaInfo{Schema: second}, false))
	check(one.ID != two.ID && one.GUID != two.GUID && one.GUID != "", "ids and guids")
	check(must(client.GetBySubjectAndID("cgo-avro", one.ID)).Schema == first, "schema by id")
	check(must(client.GetByGUID(two.GUID)).Schema == second, "schema by guid")
	check(must(client.GetID("cgo-avro", sr.SchemaInfo{Schema: first}, false)) == one.ID, "look up")
	check(must(client.GetVersion("cgo-avro", sr.SchemaInfo{Schema: second}, false)) == 2, "version")
	check(must(client.GetLatestSchemaMetadata("cgo-avro")).ID == two.ID, "latest")
	check(slices.Equal(must(client.GetAllVersions("cgo-avro")), []int{1, 2}), "versions")
	check(must(client.GetSubjectsAndVersionsByID(one.ID))[0].Subject == "cgo-avro", "subjects of an id")
	check(!must(client.TestSubjectCompatibility("cgo-avro", sr.SchemaInfo{Schema: bad})), "compatibility")
	_, err := client.Register("cgo-avro", sr.SchemaInfo{Schema: bad}, false)
	check(refused(err, 409) || refused(err, 40901), "an incompatible schema is refused")
	_, err = client.GetLatestSchemaMetadata("cgo-nothing")
	check(refused(err, 40401), "no such subject")

	reference := sr.Reference{Name: "shop.Order", Subject: "cgo-avro", Version: 1}
	must(client.Register("cgo-basket", sr.SchemaInfo{Schema: basket, References: []sr.Reference{reference}}, false))
	check(must(client.GetLatestSchemaMetadata("cgo-basket")).References[0] == reference, "references")
	must(client.Register("cgo-proto", sr.SchemaInfo{Schema: proto, SchemaType: "PROTOBUF"}, true))
	check(must(client.GetLatestSchemaMetadata("cgo-proto")).SchemaType == "PROTOBUF", "protobuf")
	must(client.Register("cgo-json", sr.SchemaInfo{Schema: json, SchemaType: "JSON"}, false))
	check(must(client.GetLatestSchemaMetadata("cgo-json")).SchemaType == "JSON", "json")

	metadata := &sr.Metadata{Properties: map[string]string{"owner": "shop"}}
	rules := &sr.RuleSet{DomainRules: []sr.Rule{{Name: "positive", Kind: "CONDITION", Mode: "WRITE", Type: "CEL", Expr: "message.x > 0"}}}
	must(client.Register("cgo-ruled", sr.SchemaInfo{Schema: first, Metadata: metadata, RuleSet: rules}, false))
	ruled := must(client.GetLatestWithMetadata("cgo-ruled", metadata.Properties, false))
	check(ruled.RuleSet.DomainRules[0].Expr == "message.x > 0", "metadata and rules")

	check(must(client.UpdateCompatibility("cgo-avro", sr.Full)) == sr.Full, "set level")
	check(must(client.GetCompatibility("cgo-avro")) == sr.Full, "level")
	must(client.UpdateConfig("cgo-alias", sr.ServerConfig{Alias: "cgo-avro"}))
	check(must(client.GetConfig("cgo-alias", false)).Alias == "cgo-avro", "alias")
	check(must(client.GetLatestSchemaMetadata("cgo-alias")).ID == two.ID, "latest by its alias")

	_, err = client.DeleteSubject("cgo-basket", true)
	check(refused(err, 40405), "a subject is deleted softly first")
	must(client.DeleteSubject("cgo-basket", false))
	must(client.DeleteSubject("cgo-basket", true))
	must(client.DeleteSubjectVersion("cgo-json", 1, false))
	check(!slices.Contains(must(client.GetAllSubjects()), "cgo-json"), "deleted")
	fmt.Println("ok")
}
