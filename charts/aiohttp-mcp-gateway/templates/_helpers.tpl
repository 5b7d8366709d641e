{{- define "gateway.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The config as given, with what the chart decides on top. */}}
{{- define "gateway.config" -}}
{{- $given := .Values.config -}}
{{- $tls := dig "listen" "tls" "client_ca" "" $given -}}
{{- if not (or $given.clients $given.auth $tls) -}}
{{- fail "The endpoint is off loopback, so callers must prove who they are: set config.clients or config.auth." -}}
{{- end -}}
{{- if not (dig "listen" "public_url" "" $given) -}}
{{- fail "Set config.listen.public_url to the https address that clients dial." -}}
{{- end -}}
{{- if not (dig "admin" "users" dict $given) -}}
{{- fail "The probes need the admin listener off loopback, so its readers must prove who they are: set config.admin.users." -}}
{{- end -}}
{{- $listen := dict "host" "0.0.0.0" "port" 8080 "drain" (printf "%ds" (int .Values.drainSeconds)) -}}
{{- $ours := dict
  "listen" $listen
  "admin" (dict "host" "0.0.0.0" "port" 9090)
  "state" (dict "dir" "/var/lib/mcp-gateway/state")
  "audit" (dict "dir" "/var/lib/mcp-gateway/audit") -}}
{{- mergeOverwrite (deepCopy $given) $ours | toYaml -}}
{{- end -}}
