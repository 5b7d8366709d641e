{{/* The gateway's container. */}}
{{- define "gateway.container" -}}
image: {{ include "gateway.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, -c, /etc/mcp-gateway/gateway.yaml]
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- with include "gateway.envFrom" . | fromYamlArray }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "gateway.env" . | fromYamlArray }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: mcp
    containerPort: 8080
    protocol: TCP
  - name: admin
    containerPort: 9090
    protocol: TCP
startupProbe:
  httpGet: {path: /healthz, port: admin}
  {{- toYaml .Values.probes.startup | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  {{- toYaml .Values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  {{- toYaml .Values.probes.readiness | nindent 2 }}
{{- if .Values.preStopSeconds }}
lifecycle:
  preStop:
    {{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}
    sleep:
      seconds: {{ int .Values.preStopSeconds }}
    {{- else }}
    exec:
      command: [sleep, {{ int .Values.preStopSeconds | quote }}]
    {{- end }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/mcp-gateway
    readOnly: true
  - name: data
    mountPath: /var/lib/mcp-gateway
  - name: cache
    mountPath: /var/cache/mcp-gateway
  - name: tmp
    mountPath: /tmp
  {{- if .Values.tls.secret }}
  - name: tls
    mountPath: /etc/mcp-gateway-tls
    readOnly: true
  {{- end }}
  {{- range .Values.secretFiles }}
  - name: secret-{{ . }}
    mountPath: /etc/mcp-gateway-secrets/{{ . }}
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "gateway.envFrom" -}}
{{- $sources := list -}}
{{- range .Values.secrets -}}
{{- $sources = append $sources (dict "secretRef" (dict "name" .)) -}}
{{- end -}}
{{- concat $sources (.Values.extraEnvFrom | default list) | toYaml -}}
{{- end -}}

{{/* One variable from one key of a Secret. */}}
{{- define "gateway.secretEnv" -}}
{{- dict "name" .name "valueFrom" (dict "secretKeyRef" (dict "name" .secret "key" .key)) | toYaml -}}
{{- end -}}

{{- define "gateway.env" -}}
{{- $variables := list -}}
{{- with .Values.sharedState -}}
{{- if .valkey.secret -}}
{{- $variables = append $variables (include "gateway.secretEnv" (dict "name" "MCP_GATEWAY_STATE_URL" "secret" .valkey.secret "key" .valkey.key) | fromYaml) -}}
{{- end -}}
{{- if .postgres.secret -}}
{{- $variables = append $variables (include "gateway.secretEnv" (dict "name" "MCP_GATEWAY_STATE_DATABASE" "secret" .postgres.secret "key" .postgres.key) | fromYaml) -}}
{{- end -}}
{{- $sealing := .sealing -}}
{{- if $sealing.secret -}}
{{- range $index, $key := $sealing.keys -}}
{{- $variables = append $variables (include "gateway.secretEnv" (dict "name" (printf "MCP_GATEWAY_SEALING_KEY_%d" $index) "secret" $sealing.secret "key" $key) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.metrics.token -}}
{{- if .secret -}}
{{- $variables = append $variables (include "gateway.secretEnv" (dict "name" "MCP_GATEWAY_METRICS_TOKEN" "secret" .secret "key" .key) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- concat $variables (.Values.extraEnv | default list) | toYaml -}}
{{- end -}}
