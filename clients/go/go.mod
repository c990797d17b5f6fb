module snowlease.io/snowlease

go 1.21
