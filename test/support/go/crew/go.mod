module crew

go 1.21

require github.com/snowlease/snowlease/clients/go v0.0.0

replace github.com/snowlease/snowlease/clients/go => ../../../../clients/go
