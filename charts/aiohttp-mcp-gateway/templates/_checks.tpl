{{/* Values that the schema lets pass and that cannot work together: each is refused with what to set instead. */}}
{{- define "gateway.most" -}}
{{- if .Values.autoscaling.enabled -}}{{- int .Values.autoscaling.maxReplicas -}}{{- else -}}{{- int .Values.replicas -}}{{- end -}}
{{- end -}}

{{- define "gateway.least" -}}
{{- if .Values.autoscaling.enabled -}}{{- int .Values.autoscaling.minReplicas -}}{{- else -}}{{- int .Values.replicas -}}{{- end -}}
{{- end -}}

{{- define "gateway.grace" -}}
{{- $least := add (int .Values.preStopSeconds) (int .Values.drainSeconds) -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add $least 15 -}}
{{- else -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int (add $least 10)) -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is too short: preStopSeconds (%d) and drainSeconds (%d) pass first, and ending servers and the audit log takes up to 10 more. Set %d or more, or leave it out." (int .Values.terminationGracePeriodSeconds) (int .Values.preStopSeconds) (int .Values.drainSeconds) (int (add $least 10))) -}}
{{- end -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{- define "gateway.check" -}}
{{- $name := include "gateway.fullname" . -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) -}}
{{- fail (printf "%s cannot be the name of a Service, which begins with a letter and has no dot: set fullnameOverride, or name the release otherwise." $name) -}}
{{- end -}}
{{- include "gateway.checkConfig" . -}}
{{- include "gateway.checkReplicas" . -}}
{{- include "gateway.checkBudget" . -}}
{{- include "gateway.checkService" . -}}
{{- if and (eq .Values.kind "Deployment") .Values.persistence.enabled (ne ((.Values.updateStrategy | default dict).type | default "Recreate") "Recreate") -}}
{{- fail "updateStrategy: a Deployment on a volume would have two pods write one audit log during an update. Leave it out (Recreate), or set kind: StatefulSet." -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.token.secret) -}}
{{- fail "metrics.serviceMonitor needs metrics.token.secret: off loopback, metrics are read with a token only." -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute needs httpRoute.parentRefs: the Gateways that it belongs to." -}}
{{- end -}}
{{- if and .Values.tls.secret .Values.httpRoute.enabled (not .Values.httpRoute.tlsToPods) -}}
{{- fail "tls.secret has the pods speak TLS, and a Gateway speaks plain HTTP to what an httpRoute leads to: leave tls.secret out, or add a BackendTLSPolicy (extraObjects) and set httpRoute.tlsToPods." -}}
{{- end -}}
{{- if and .Values.tls.secret .Values.ingress.enabled (not .Values.ingress.controller) (not .Values.ingress.tlsToPods) -}}
{{- fail "tls.secret has the pods speak TLS, and an ingress controller speaks plain HTTP to them unless it is told: leave tls.secret out, set ingress.controller, or add what tells yours (ingress.annotations, service.annotations) and set ingress.tlsToPods." -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- fail "autoscaling.maxReplicas must not be less than autoscaling.minReplicas." -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not (or .Values.autoscaling.targetCPU .Values.autoscaling.targetMemory .Values.autoscaling.metrics)) -}}
{{- fail "autoscaling needs something to go by: autoscaling.targetCPU, targetMemory or metrics." -}}
{{- end -}}
{{- end -}}

{{- define "gateway.checkConfig" -}}
{{- $needsUrl := or .Values.ingress.enabled .Values.httpRoute.enabled -}}
{{- if .Values.existingConfigMap.name -}}
{{- if or .Values.policyFiles .Values.files .Values.sharedState.valkey.secret .Values.sharedState.postgres.secret .Values.sharedState.sealing.secret .Values.tls.secret -}}
{{- fail "existingConfigMap.name replaces the whole config: write policies, files, state and listen.tls there, and leave policyFiles, files, sharedState and tls out here." -}}
{{- end -}}
{{- if and $needsUrl (not .Values.config.listen.public_url) -}}
{{- fail "ingress and httpRoute need config.listen.public_url, also beside existingConfigMap: host and path come from it." -}}
{{- end -}}
{{- else -}}
{{- $given := .Values.config -}}
{{- if not (dig "listen" "public_url" "" $given) -}}
{{- fail "Set config.listen.public_url to the https address that clients dial." -}}
{{- end -}}
{{- $jwt := dig "jwt" "" ($given.auth | default dict) -}}
{{- if not (or $given.clients $jwt .Values.tls.clientCa) -}}
{{- fail "The endpoint is off loopback, so callers must prove who they are: set config.clients, config.auth.jwt or tls.clientCa." -}}
{{- end -}}
{{- if not (dig "admin" "users" dict $given) -}}
{{- fail "The probes need the admin listener off loopback, so its readers must prove who they are: set config.admin.users." -}}
{{- end -}}
{{- if and .Values.tls.clientCa (not .Values.tls.secret) -}}
{{- fail "tls.clientCa needs tls.secret: certificates of callers are seen only where TLS ends." -}}
{{- end -}}
{{- if not (or .Values.tls.secret $given.listen.behind_tls_proxy) -}}
{{- fail "Keys would travel readable: leave config.listen.behind_tls_proxy on and let TLS end in front of the Service, or set tls.secret." -}}
{{- end -}}
{{- $state := (include "gateway.config" . | fromYaml).state -}}
{{- if and (or $state.database (ne ($state.url | default "memory://") "memory://")) (not $state.sealing_keys) -}}
{{- fail "Shared state needs sealing keys that all replicas have: set sharedState.sealing.secret." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.checkReplicas" -}}
{{- $most := int (include "gateway.most" .) -}}
{{- if gt $most 1 -}}
{{- $why := ternary (printf "autoscaling to %d pods" $most) (printf "replicas: %d" $most) .Values.autoscaling.enabled -}}
{{- $missing := list -}}
{{- if .Values.existingConfigMap.name -}}
{{- if not .Values.existingConfigMap.sharesState -}}
{{- $missing = append $missing "existingConfigMap.sharesState (and the state in that ConfigMap)" -}}
{{- end -}}
{{- else -}}
{{- $state := (include "gateway.config" . | fromYaml).state -}}
{{- if eq ($state.url | default "memory://") "memory://" -}}{{- $missing = append $missing "sharedState.valkey.secret (limits and sessions)" -}}{{- end -}}
{{- if not $state.database -}}{{- $missing = append $missing "sharedState.postgres.secret (pins and approvals)" -}}{{- end -}}
{{- if not $state.sealing_keys -}}{{- $missing = append $missing "sharedState.sealing.secret (what clients carry from one pod to another)" -}}{{- end -}}
{{- end -}}
{{- if $missing -}}
{{- fail (printf "%s: several pods need state that they share. Set %s, or stay with one." $why (join ", " $missing)) -}}
{{- end -}}
{{- if and .Values.persistence.enabled .Values.persistence.existingClaim -}}
{{- fail (printf "%s: each pod writes an audit log of its own and cannot share persistence.existingClaim. Leave it out, so that every pod gets its own volume." $why) -}}
{{- end -}}
{{- if and (eq .Values.kind "Deployment") .Values.persistence.enabled -}}
{{- fail (printf "%s: each pod writes an audit log of its own, and pods of a Deployment share one volume. Set kind: StatefulSet, or persistence.enabled: false with config.audit.sinks." $why) -}}
{{- end -}}
{{- if not (or .Values.persistence.enabled .Values.existingConfigMap.name (dig "sinks" list (.Values.config.audit | default dict))) -}}
{{- fail (printf "%s without volumes: the audit log of a pod would end with it. Set config.audit.sinks, or kind: StatefulSet with persistence." $why) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A budget that never lets a pod go holds up every drain of a node. A percentage is of the fewest pods, rounded up. */}}
{{- define "gateway.checkBudget" -}}
{{- $least := int (include "gateway.least" .) -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (gt $least 1) -}}
{{- if kindIs "invalid" $budget.minAvailable -}}
{{- if has (toString $budget.maxUnavailable) (list "0" "0%" "00%" "000%" "<nil>") -}}
{{- fail "podDisruptionBudget lets no pod go, so no node could be drained: set maxUnavailable to 1 or more, or minAvailable." -}}
{{- end -}}
{{- else -}}
{{- $stay := int64 (toString $budget.minAvailable | trimSuffix "%") -}}
{{- if hasSuffix "%" (toString $budget.minAvailable) -}}
{{- $stay = div (add (mul $stay $least) 99) 100 -}}
{{- end -}}
{{- if ge (int $stay) $least -}}
{{- fail (printf "podDisruptionBudget.minAvailable: %v keeps all of %d pods, so no node could be drained: set less, or leave it out." $budget.minAvailable $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a cluster refuses of a Service, and it would do so halfway through an installation. */}}
{{- define "gateway.checkService" -}}
{{- $service := .Values.service -}}
{{- if eq $service.type "ClusterIP" -}}
{{- if $service.nodePort -}}{{- fail "service.nodePort is for service.type NodePort and LoadBalancer." -}}{{- end -}}
{{- if $service.externalTrafficPolicy -}}{{- fail "service.externalTrafficPolicy is for service.type NodePort and LoadBalancer." -}}{{- end -}}
{{- end -}}
{{- if ne $service.type "LoadBalancer" -}}
{{- if $service.loadBalancerClass -}}{{- fail "service.loadBalancerClass is for service.type LoadBalancer." -}}{{- end -}}
{{- if $service.loadBalancerSourceRanges -}}{{- fail "service.loadBalancerSourceRanges is for service.type LoadBalancer." -}}{{- end -}}
{{- end -}}
{{- end -}}
