module lacuna.test/harness

go 1.26
