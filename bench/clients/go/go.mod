module bench

go 1.21

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/godruoyi/go-snowflake v0.0.1
	github.com/snowlease/snowlease/clients/go v0.0.0
	github.com/sony/sonyflake v1.2.0
)

replace github.com/snowlease/snowlease/clients/go => ../../../clients/go
