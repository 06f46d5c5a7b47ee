{{- define "pinproxy.name" -}}
{{- if contains "pinproxy" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-pinproxy" (.Release.Name | trunc 40 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "pinproxy.selector" -}}
app.kubernetes.io/name: pinproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pinproxy.labels" -}}
{{ include "pinproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "pinproxy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pinproxy.probes" -}}
readinessProbe:
  exec:
    command: ["/usr/bin/pinproxy", "health", "--config", "/etc/pinproxy/config.json"]
  periodSeconds: 2
livenessProbe:
  exec:
    command: ["/usr/bin/pinproxy", "health", "--live", "--config", "/etc/pinproxy/config.json"]
  periodSeconds: 10
  timeoutSeconds: 6
{{- end }}

{{- define "pinproxy.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: ["ALL"] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* config.json with its listener at an address: (list . "127.0.0.1:8080") */}}
{{- define "pinproxy.config" -}}
{{- $root := index . 0 }}
{{- $address := index . 1 }}
{{- $listener := dict "address" $address "mode" "forward" }}
{{- if not (hasPrefix "127." $address) }}{{ $_ := set $listener "allowRemoteClients" true }}{{ end }}
{{- $own := dict "version" 1 "listeners" (list $listener) "admin" (dict "address" "127.0.0.1:8081") "pins" "/etc/pinproxy-pins" }}
{{- merge $own $root.Values.config | toPrettyJson }}
{{- end }}
