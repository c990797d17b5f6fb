module bench

go 1.21

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/godruoyi/go-snowflake v0.0.1
	github.com/sony/sonyflake v1.2.0
	snowlease.io/snowlease v0.0.0
)

replace snowlease.io/snowlease => ../../../clients/go
