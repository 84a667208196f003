package storetest

var flowCrowdRules = []flowRule{}
