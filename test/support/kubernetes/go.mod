module snowlease.test/kubernetes

go 1.24.0

require (
	k8s.io/apiextensions-apiserver v0.33.5
	k8s.io/apimachinery v0.33.5
	k8s.io/apiserver v0.33.5
	k8s.io/client-go v0.33.5
	k8s.io/component-base v0.33.5
	github.com/spf13/pflag v1.0.5
)
