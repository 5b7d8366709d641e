{{/* The pod: one for both kinds of workload. */}}
{{- define "gateway.pod" -}}
metadata:
  labels:
    # Without the chart's version: another one that changes nothing of the pods must not roll them.
    {{- omit (include "gateway.labels" (dict "root" . "more" .Values.podLabels) | fromYaml) "helm.sh/chart" | toYaml | nindent 4 }}
  {{- with mergeOverwrite (dict) (.Values.commonAnnotations | default dict) (include "gateway.checksum" . | fromYaml) (.Values.podAnnotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "gateway.serviceAccount" . }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automountToken }}
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  # Time before the signal, the drain after it, and what is left to end servers and to sign the audit log.
  terminationGracePeriodSeconds: {{ include "gateway.grace" . }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: gateway
      {{- include "gateway.container" . | nindent 6 }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "gateway.volumes" . | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "gateway.spread" . | fromYamlArray }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "gateway.spread" -}}
{{- if not (kindIs "invalid" .Values.topologySpreadConstraints) -}}
{{- toYaml .Values.topologySpreadConstraints -}}
{{- else if gt (int (include "gateway.most" .)) 1 -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "gateway.selector" $ | nindent 6 }}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end -}}
