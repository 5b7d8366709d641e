{{/* Names and labels. The selector never changes: it holds no version and nothing that values can change but the names. */}}
{{- define "gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "gateway.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.instance" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.selector" -}}
{{ include "gateway.instance" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/* Labels of an object; takes {root, component, more}. What an object is found by wins over everything. */}}
{{- define "gateway.labels" -}}
{{- $root := .root -}}
{{- $fixed := dict
  "app.kubernetes.io/name" (include "gateway.name" $root)
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/component" (default "gateway" .component)
  "app.kubernetes.io/version" ($root.Values.image.tag | default $root.Chart.AppVersion | trunc 63)
  "app.kubernetes.io/part-of" $root.Chart.Name
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- mergeOverwrite (dict) ($root.Values.commonLabels | default dict) (.more | default dict) $fixed | toYaml -}}
{{- end -}}

{{/* The metadata of an object; takes {root, name, component, labels, annotations}. */}}
{{- define "gateway.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "gateway.labels" (dict "root" .root "component" .component "more" .labels) | nindent 2 }}
{{- with mergeOverwrite (dict) (.root.Values.commonAnnotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gateway.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- $variant := empty .Values.image.variant | ternary "" (printf "-%v" .Values.image.variant) -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "%s%s" .Chart.AppVersion $variant)) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.family" -}}
{{- ternary "IPv6" "IPv4" (contains ":" .Values.bind) -}}
{{- end -}}

{{- define "gateway.configMap" -}}
{{- .Values.existingConfigMap.name | default (include "gateway.fullname" .) -}}
{{- end -}}
