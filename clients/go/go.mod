module github.com/snowlease/snowlease/clients/go

go 1.21
