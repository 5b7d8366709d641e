{{/* The config as given, with what the chart decides on top, as YAML. */}}
{{- define "gateway.config" -}}
{{- $values := .Values -}}
{{- $given := deepCopy $values.config -}}
{{- $listen := dict "host" $values.bind "port" 8080 "drain" (printf "%ds" (int $values.drainSeconds)) -}}
{{- if $values.tls.secret -}}
{{- $tls := dict "cert" "/etc/mcp-gateway-tls/tls.crt" "key" "/etc/mcp-gateway-tls/tls.key" -}}
{{- if $values.tls.clientCa -}}
{{- $_ := set $tls "client_ca" "/etc/mcp-gateway-tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $listen "tls" $tls -}}
{{- $_ := set $listen "behind_tls_proxy" false -}}
{{- end -}}
{{- $admin := dict "host" $values.bind "port" 9090 -}}
{{- if $values.metrics.token.secret -}}
{{- $_ := set $admin "metrics_token" "${MCP_GATEWAY_METRICS_TOKEN}" -}}
{{- end -}}
{{- $state := dict "dir" "/var/lib/mcp-gateway/state" -}}
{{- with $values.sharedState -}}
{{- if .valkey.secret -}}{{- $_ := set $state "url" "${MCP_GATEWAY_STATE_URL}" -}}{{- end -}}
{{- if .postgres.secret -}}{{- $_ := set $state "database" "${MCP_GATEWAY_STATE_DATABASE}" -}}{{- end -}}
{{- if .sealing.secret -}}
{{- $keys := list -}}
{{- range $index, $_ := .sealing.keys -}}
{{- $keys = append $keys (printf "${MCP_GATEWAY_SEALING_KEY_%d}" $index) -}}
{{- end -}}
{{- $_ := set $state "sealing_keys" $keys -}}
{{- end -}}
{{- end -}}
{{- if $values.policyFiles -}}
{{- $policies := $given.policies | default list -}}
{{- if not (has "policies.*.yaml" $policies) -}}
{{- $_ := set $given "policies" (append $policies "policies.*.yaml") -}}
{{- end -}}
{{- end -}}
{{- $ours := dict "listen" $listen "admin" $admin "state" $state "audit" (dict "dir" "/var/lib/mcp-gateway/audit") -}}
{{- mergeOverwrite $given $ours | toYaml -}}
{{- end -}}

{{/* The part of the config that is in force only after a restart (gateway/config/restart.py). */}}
{{- define "gateway.restartConfig" -}}
{{- $config := include "gateway.config" . | fromYaml -}}
{{- $parts := pick $config "listen" "admin" "state" "audit" -}}
{{- if has "otlp" ($config.audit.sinks | default list) -}}
{{- $_ := set $parts "otlp" (dig "otlp" "" ($config.telemetry | default dict)) -}}
{{- end -}}
{{- $parts | toYaml -}}
{{- end -}}

{{/* What the pods run with, for the annotation that rolls them. */}}
{{- define "gateway.checksum" -}}
{{- if .Values.existingConfigMap.name -}}
{{- else if eq .Values.rollPods "always" -}}
checksum/config: {{ include (print .Template.BasePath "/configmap.yaml") . | sha256sum }}
{{- else if eq .Values.rollPods "restart" -}}
checksum/restart-config: {{ include "gateway.restartConfig" . | sha256sum }}
{{- end -}}
{{- end -}}

{{/* Host name and paths under which clients know the endpoint; the authority has the port too, where there is one. */}}
{{- define "gateway.host" -}}
{{- (urlParse .Values.config.listen.public_url).hostname | lower -}}
{{- end -}}

{{- define "gateway.authority" -}}
{{- (urlParse .Values.config.listen.public_url).host -}}
{{- end -}}

{{- define "gateway.paths" -}}
{{- $config := .Values.config -}}
{{- $paths := list (dig "listen" "path" "/mcp" $config) -}}
{{- if dig "auth" "jwt" dict ($config | merge (dict "auth" dict)) -}}
{{- $paths = append $paths "/.well-known/oauth-protected-resource" -}}
{{- end -}}
{{- $consent := false -}}
{{- range $_, $server := $config.servers -}}
{{- if kindIs "map" ($server.auth | default dict).authorization_code -}}{{- $consent = true -}}{{- end -}}
{{- end -}}
{{- if $consent -}}{{- $paths = append $paths "/oauth/" -}}{{- end -}}
{{- $paths | toJson -}}
{{- end -}}

{{/* What a public https address leads to inside: the scheme of the pod's port. */}}
{{- define "gateway.scheme" -}}
{{- empty .Values.tls.secret | ternary "http" "https" -}}
{{- end -}}
