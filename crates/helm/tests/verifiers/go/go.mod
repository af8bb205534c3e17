module daedal.test/verify

go 1.24
