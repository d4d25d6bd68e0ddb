{{- define "lacuna.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lacuna.controlplane" -}}
{{ include "lacuna.fullname" . }}-controlplane
{{- end -}}

{{- define "lacuna.agent" -}}
{{ include "lacuna.fullname" . }}-agent
{{- end -}}

{{/* Labels that select the pods of a component: (list . "agent") */}}
{{- define "lacuna.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "lacuna.labels" -}}
{{- $root := index . 0 -}}
{{ include "lacuna.selector" . }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end -}}

{{- define "lacuna.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "lacuna.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "lacuna.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* All addresses of a pod, to listen on. */}}
{{- define "lacuna.everywhere" -}}
{{ if .Values.ipv6 }}[::]{{ else }}0.0.0.0{{ end }}
{{- end -}}

{{/* What the pods of both components have: (list . "agent" .Values.agent) */}}
{{- define "lacuna.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
serviceAccountName: {{ include "lacuna.serviceAccount" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- range $values.topologySpreadConstraints }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "lacuna.selector" $ | nindent 8 }}
    {{- end }}
{{- else }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "lacuna.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- if $root.Values.settings }}
volumes:
  - name: settings
    configMap:
      name: {{ include "lacuna.fullname" $root }}
{{- end }}
{{- end -}}

{{/* What their containers have. */}}
{{- define "lacuna.container" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
image: {{ include "lacuna.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with $root.Values.store.existingSecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- if $root.Values.settings }}
volumeMounts:
  - name: settings
    mountPath: /etc/lacuna
    readOnly: true
{{- end }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
{{- end -}}

{{- define "lacuna.environment" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
- name: LACUNA_STORE
  value: {{ $root.Values.store.url | quote }}
{{- if $root.Values.store.createBucket }}
- name: LACUNA_CREATE_BUCKET
  value: "true"
{{- end }}
{{- with $root.Values.store.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- if $root.Values.settings }}
- name: LACUNA_CONFIG
  value: /etc/lacuna/lacuna.toml
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Pods are replaced when the settings change, since these are read once. */}}
{{- define "lacuna.annotations" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
checksum/settings: {{ $root.Values.settings | toJson | sha256sum }}
{{- with $values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
