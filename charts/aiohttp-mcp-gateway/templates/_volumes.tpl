{{/* What the pod mounts. The config is a folder with all that the ConfigMap has, and none of it is named here: only so
does a change reach a running pod, a new file too, without the pods being made anew. */}}
{{- define "gateway.volumes" -}}
- name: config
  configMap:
    name: {{ include "gateway.configMap" . }}
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
