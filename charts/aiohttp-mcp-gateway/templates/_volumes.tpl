{{/* What the pod mounts. The config is a folder, not single files: only so does a change reach a running pod. */}}
{{- define "gateway.volumes" -}}
- name: config
  configMap:
    name: {{ include "gateway.configMap" . }}
    {{- if not .Values.existingConfigMap.name }}
    items:
      - {key: gateway.yaml, path: gateway.yaml}
      {{- range $name, $_ := .Values.policyFiles }}
      - {key: policies.{{ $name }}, path: policies/{{ $name }}}
      {{- end }}
      {{- range $name, $_ := .Values.files }}
      - {key: files.{{ $name }}, path: files/{{ $name }}}
      {{- end }}
    {{- end }}
{{- if not .Values.persistence.enabled }}
- name: data
  emptyDir: {}
{{- else if or .Values.persistence.existingClaim (eq .Values.kind "Deployment") }}
- name: data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | default (include "gateway.fullname" .) }}
{{- end }}
- name: cache
  emptyDir:
    sizeLimit: {{ .Values.cacheSize }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.tmpSize }}
{{- with .Values.tls.secret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- range .Values.secretFiles }}
- name: secret-{{ . }}
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The spec of a claim. */}}
{{- define "gateway.claim" -}}
accessModes:
  {{- toYaml .Values.persistence.accessModes | nindent 2 }}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end -}}
