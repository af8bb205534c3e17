{{ define "lib.say" }}<{{ . }}>{{ end }}
