// An API server of Kubernetes, with the machinery of the real one (storage, watch cache, conflicts, lists, limits) on a real etcd, that serves
// leases.coordination.k8s.io as a CustomResourceDefinition. Users and their rights stand in a file, which is read at each request.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// One line of the file of users: what a token may do with leases in one namespace.
type account struct {
	Token     string   `json:"token"`
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Verbs     []string `json:"verbs"`
}

func main() {
	o := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	fs := pflag.NewFlagSet("kubernetes", pflag.ExitOnError)
	o.ServerRunOptions.AddUniversalFlags(fs)
	o.RecommendedOptions.Etcd.AddFlags(fs)
	o.RecommendedOptions.SecureServing.AddFlags(fs)
	users := fs.String("users", "", "file with the users, in JSON")
	check(fs.Parse(os.Args[1:]))

	// No other API server is there to ask: users, rights and services are its own.
	recommended := o.RecommendedOptions
	recommended.Authentication, recommended.Authorization, recommended.CoreAPI, recommended.Admission = nil, nil, nil, nil
	recommended.Features.EnablePriorityAndFairness = false
	recommended.ExtraAdmissionInitializers = func(config *server.RecommendedConfig) ([]admission.PluginInitializer, error) {
		config.SharedInformerFactory = informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
		config.Authentication.Authenticator = bearertoken.New(authenticator.TokenFunc(authenticatorOf(*users)))
		config.Authorization.Authorizer = authorizer.AuthorizerFunc(authorizerOf(*users))
		return nil, nil
	}

	check(o.ServerRunOptions.ComponentGlobalsRegistry.Set())
	check(o.Complete())
	config, err := o.Config()
	check(err)
	made, err := config.Complete().New(server.NewEmptyDelegateWithCustomHandler(http.HandlerFunc(groups)))
	check(err)
	go define(clientset.NewForConfigOrDie(made.GenericAPIServer.LoopbackClientConfig))
	check(made.GenericAPIServer.PrepareRun().RunWithContext(server.SetupSignalContext()))
}

// What kubectl looks for kinds in: the real server has it from the aggregation of several.
func groups(answer http.ResponseWriter, asked *http.Request) {
	leases := meta.GroupVersionForDiscovery{GroupVersion: "coordination.k8s.io/v1", Version: "v1"}
	known := map[string]any{
		"/api": meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{}},
		"/apis": meta.APIGroupList{
			TypeMeta: meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []meta.APIGroup{{
				Name:             "coordination.k8s.io",
				Versions:         []meta.GroupVersionForDiscovery{leases},
				PreferredVersion: leases,
			}},
		},
	}
	found, isKnown := known[asked.URL.Path]
	if !isKnown {
		http.NotFound(answer, asked)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(found)
}

func accounts(file string) ([]account, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []account
	return found, json.Unmarshal(text, &found)
}

func authenticatorOf(file string) func(context.Context, string) (*authenticator.Response, bool, error) {
	return func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		found, err := accounts(file)
		if err != nil {
			return nil, false, err
		}
		for _, each := range found {
			if each.Token == token {
				return &authenticator.Response{User: &user.DefaultInfo{Name: each.Name, Groups: []string{user.AllAuthenticated}}}, true, nil
			}
		}
		return nil, false, nil
	}
}

func authorizerOf(file string) func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return func(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
		found, err := accounts(file)
		if err != nil {
			return authorizer.DecisionDeny, "", err
		}
		if slices.Contains(asked.GetUser().GetGroups(), user.SystemPrivilegedGroup) || !asked.IsResourceRequest() {
			return authorizer.DecisionAllow, "", nil
		}
		for _, each := range found {
			isPlace := each.Namespace == asked.GetNamespace() && each.Name == asked.GetUser().GetName()
			if isPlace && asked.GetResource() == "leases" && slices.Contains(each.Verbs, asked.GetVerb()) {
				return authorizer.DecisionAllow, "", nil
			}
		}
		return authorizer.DecisionNoOpinion, "no account in the file of users allows it", nil
	}
}

// Defines Lease objects as far as the real kind checks them.
func define(client clientset.Interface) {
	text := func() apiextensions.JSONSchemaProps { return apiextensions.JSONSchemaProps{Type: "string"} }
	number := func(least float64) apiextensions.JSONSchemaProps {
		most := float64(1<<31 - 1)
		return apiextensions.JSONSchemaProps{Type: "integer", Format: "int32", Minimum: &least, Maximum: &most}
	}
	instant := func() apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: "string", Pattern: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`}
	}
	holder := text()
	one := int64(1)
	holder.MinLength = &one
	spec := apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"holderIdentity":       holder,
		"leaseDurationSeconds": number(1),
		"acquireTime":          instant(),
		"renewTime":            instant(),
		"leaseTransitions":     number(0),
		"strategy":             text(),
		"preferredHolder":      text(),
	}}
	schema := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": spec}}
	leases := &apiextensions.CustomResourceDefinition{
		ObjectMeta: meta.ObjectMeta{
			Name:        "leases.coordination.k8s.io",
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a server of tests"},
		},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "coordination.k8s.io",
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "leases", Singular: "lease", Kind: "Lease", ListKind: "LeaseList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
				AdditionalPrinterColumns: []apiextensions.CustomResourceColumnDefinition{
					{Name: "Holder", Type: "string", JSONPath: ".spec.holderIdentity"},
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
				},
			}},
		},
	}
	for {
		_, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(context.TODO(), leases, meta.CreateOptions{})
		if err == nil || errors.IsAlreadyExists(err) {
			return
		}
		if !strings.Contains(err.Error(), "connection refused") {
			fmt.Fprintln(os.Stderr, "leases are not defined yet:", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func check(err error) {
	if err != nil && err != http.ErrServerClosed {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
