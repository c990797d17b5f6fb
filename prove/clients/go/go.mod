module holder

go 1.21

require snowlease.io/snowlease v0.1.0

replace snowlease.io/snowlease => ../../../clients/go
