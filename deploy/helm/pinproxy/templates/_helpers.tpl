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

{{/* Numbers of values are floating-point numbers to Helm, which writes a million as 1e+06. */}}
{{- define "pinproxy.securityContext" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: ["ALL"] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* config.json of the proxy of the namespace, of sidecars, or of machines: (list . "egress"), (list . "sidecar"), (list . "node") */}}
{{- define "pinproxy.config" -}}
{{- $root := index . 0 }}
{{- $part := index . 1 }}
{{- $listener := dict "address" "127.0.0.1:8080" "mode" "forward" }}
{{- if eq $part "egress" }}{{ $listener = dict "address" "0.0.0.0:8080" "mode" "forward" "allowRemoteClients" true }}{{ end }}
{{- if eq $part "node" }}{{ $listener = dict "unixSocket" (printf "%s/http.sock" $root.Values.node.path) "mode" "forward" }}{{ end }}
{{- $listeners := concat (list $listener) (index $root.Values $part).listeners }}
{{- if and (eq $part "sidecar") $root.Values.transparent.enabled }}
{{- $transparent := dict "address" (printf "127.0.0.1:%v" $root.Values.transparent.port) "mode" "transparent" "originalDestination" $root.Values.transparent.originalDestination }}
{{- $listeners = append $listeners $transparent }}
{{- end }}
{{- $admin := dict "address" "127.0.0.1:8081" }}
{{- if $root.Values.admin.remote }}{{ $admin = dict "address" "0.0.0.0:8081" "allowRemoteClients" true }}{{ end }}
{{- if $root.Values.admin.tokenSecret.name }}{{ $_ := set $admin "tokenFile" (printf "/etc/pinproxy-admin/%s" $root.Values.admin.tokenSecret.key) }}{{ end }}
{{- $own := dict "version" 1 "listeners" $listeners "admin" $admin "pins" "/etc/pinproxy-pins" }}
{{- merge $own $root.Values.config | toPrettyJson }}
{{- end }}

{{/* The parts of the chart that have a config.json, as a list of names in JSON. */}}
{{- define "pinproxy.parts" -}}
{{- $parts := list "sidecar" }}
{{- if .Values.egress.enabled }}{{ $parts = append $parts "egress" }}{{ end }}
{{- if .Values.node.enabled }}{{ $parts = append $parts "node" }}{{ end }}
{{- $parts | toJson }}
{{- end }}

{{/* The name of the ConfigMap with the config.json of a part. */}}
{{- define "pinproxy.configName" -}}
{{- $name := include "pinproxy.name" (index . 0) }}
{{- if eq (index . 1) "egress" }}{{ $name }}{{ else }}{{ printf "%s-%s" $name (index . 1) }}{{ end }}
{{- end }}

{{/* The ports of further listeners of the proxy of the namespace, as a list of numbers in JSON. */}}
{{- define "pinproxy.morePorts" -}}
{{- $ports := list }}
{{- range .Values.egress.listeners }}{{ with .address }}{{ $ports = append $ports (regexFind "[0-9]+$" . | int) }}{{ end }}{{ end }}
{{- $ports | toJson }}
{{- end }}

{{/* What makes no sense ends the rendering, with the remedy. */}}
{{- define "pinproxy.check" -}}
{{- if and (not .Values.pins) (not .Values.pinsConfigMap) (ne (default "allow" .Values.config.unpinnedHosts) "allow") }}
{{- fail "\n\npins is empty, and config.unpinnedHosts is deny: every request would be refused.\nMake a pin file for each host (pinproxy pins show --pin-file HOST), and hand it over:\n  --set-json 'pins={\"HOST.json\":'\"$(cat HOST.json)\"'}'\nor name a ConfigMap of your own: --set pinsConfigMap=NAME" }}
{{- end }}
{{- if and .Values.pins .Values.pinsConfigMap }}{{ fail "\n\nBoth pins and pinsConfigMap are there: leave one out." }}{{ end }}
{{- if and .Values.admin.remote (not .Values.admin.tokenSecret.name) }}
{{- fail "\n\nadmin.remote lets other pods read what the proxy does, and needs a token:\n  kubectl create secret generic pinproxy-admin --from-literal=token=$(openssl rand -hex 32)\n  --set admin.tokenSecret.name=pinproxy-admin" }}
{{- end }}
{{- if and .Values.node.enabled .Values.node.folderImage (not .Values.runAsUser) }}
{{- fail "\n\nnode.folderImage gives the folder to runAsUser, which is null: set it, or make the folder on the machines and leave folderImage out." }}
{{- end }}
{{- if and .Values.transparent.enabled (not .Values.transparent.image) }}
{{- fail "\n\ntransparent.enabled needs transparent.image, an image with pinproxy and nft(8): docs/sidecar.md has the lines that make one." }}
{{- end }}
{{- if and .Values.transparent.enabled (not .Values.runAsUser) }}
{{- fail "\n\ntransparent.enabled needs runAsUser: the connections of that user are pinproxy's own, and are left alone." }}
{{- end }}
{{- if and .Values.podMonitor.enabled (not .Values.admin.remote) }}
{{- fail "\n\npodMonitor.enabled needs admin.remote: true, since Prometheus is another pod." }}
{{- end }}
{{- end }}

{{/* What a program needs in its env to use a proxy at this address: (include "pinproxy.environment" "http://127.0.0.1:8080") */}}
{{- define "pinproxy.environment" -}}
- { name: http_proxy, value: {{ . | quote }} }
# The names of the cluster itself go past the proxy.
- { name: no_proxy, value: "localhost,127.0.0.1,.svc,.cluster.local" }
{{- end }}

{{- define "pinproxy.mounts" -}}
- { name: pinproxy-config, mountPath: /etc/pinproxy, readOnly: true }
- { name: pinproxy-pins, mountPath: /etc/pinproxy-pins, readOnly: true }
{{- if .Values.admin.tokenSecret.name }}
- { name: pinproxy-admin, mountPath: /etc/pinproxy-admin, readOnly: true }
{{- end }}
{{- range .Values.secrets }}
- { name: {{ printf "secret-%s" . }}, mountPath: {{ printf "/etc/pinproxy-secrets/%s" . }}, readOnly: true }
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list . NAME), with the name of the ConfigMap that has config.json */}}
{{- define "pinproxy.volumes" -}}
- name: pinproxy-config
  configMap: { name: {{ index . 1 }} }
{{ include "pinproxy.volumesBesides" (list (index . 0) (printf "%s-pins" (include "pinproxy.name" (index . 0)))) }}
{{- end }}

{{/* (list . NAME), with the name of the ConfigMap that has the chart's pin files: all volumes but that of config.json */}}
{{- define "pinproxy.volumesBesides" -}}
{{- $root := index . 0 }}
{{- with $root }}
- name: pinproxy-pins
  configMap: { name: {{ .Values.pinsConfigMap | default (index $ 1) }} }
{{- if .Values.admin.tokenSecret.name }}
- name: pinproxy-admin
  secret: { secretName: {{ .Values.admin.tokenSecret.name }}, defaultMode: 0440 }
{{- end }}
{{- range .Values.secrets }}
- name: {{ printf "secret-%s" . }}
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
