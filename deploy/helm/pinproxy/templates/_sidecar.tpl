{{/*
For the charts of programs, which take this chart as a dependency with egress.enabled: false:

    spec:
      # Needed for admin.tokenSecret and secrets, whose files are for this group alone.
      securityContext: { fsGroup: 65532 }
      initContainers:
        {{- include "pinproxy.nativeSidecar" .Subcharts.pinproxy | nindent 8 }}
      containers:
        - env:
            {{- include "pinproxy.environment" "http://127.0.0.1:8080" | nindent 12 }}
      volumes:
        {{- include "pinproxy.sidecarVolumes" .Subcharts.pinproxy | nindent 8 }}

The native sidecar starts before the program and ends after it, also in a Job (Kubernetes 1.29). The classic one belongs to
containers instead, and not into a Job, which would never finish.
*/}}
{{- define "pinproxy.nativeSidecar" -}}
{{- if .Values.transparent.enabled }}
{{- include "pinproxy.redirect" . }}
{{ end -}}
- name: pinproxy
  image: {{ include "pinproxy.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args: ["run", "--config", "/etc/pinproxy/config.json"]
  startupProbe:
    exec:
      command: ["/usr/bin/pinproxy", "health", "--config", "/etc/pinproxy/config.json"]
    periodSeconds: 1
    failureThreshold: 30
  {{- include "pinproxy.probes" . | nindent 2 }}
  {{- include "pinproxy.sidecarRest" . | nindent 2 }}
{{- end }}

{{- define "pinproxy.classicSidecar" -}}
- name: pinproxy
  image: {{ include "pinproxy.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: ["run", "--config", "/etc/pinproxy/config.json"]
  {{- include "pinproxy.probes" . | nindent 2 }}
  {{- include "pinproxy.sidecarRest" . | nindent 2 }}
{{- end }}

{{/* An init container that redirects the connections of the pod's programs to the transparent listener. */}}
{{- define "pinproxy.redirect" -}}
- name: pinproxy-redirect
  image: {{ .Values.transparent.image }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: ["/usr/bin/pinproxy"]
  args: ["redirect", "--user", "{{ int64 .Values.runAsUser }}", "--to", "{{ .Values.transparent.port }}", "--ports", "{{ join "," .Values.transparent.ports }}", "--apply"]
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] }
    seccompProfile: { type: RuntimeDefault }
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
{{- end }}

{{- define "pinproxy.sidecarRest" -}}
securityContext:
  {{- include "pinproxy.securityContext" . | nindent 2 }}
resources:
  {{- toYaml .Values.sidecar.resources | nindent 2 }}
{{- if .Values.admin.remote }}
ports:
  - { name: pinproxy-admin, containerPort: 8081 }
{{- end }}
volumeMounts:
  {{- include "pinproxy.mounts" . | nindent 2 }}
{{- end }}

{{- define "pinproxy.sidecarVolumes" -}}
{{- include "pinproxy.volumes" (list . (printf "%s-sidecar" (include "pinproxy.name" .))) | trim }}
{{- end }}
