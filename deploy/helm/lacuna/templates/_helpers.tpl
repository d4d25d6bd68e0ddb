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

{{/* Where Kafka clients find the agents; a port follows. */}}
{{- define "lacuna.bootstrap" -}}
{{ include "lacuna.fullname" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* The domain that has the agents' names. */}}
{{- define "lacuna.agents" -}}
{{ include "lacuna.agent" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* The listeners at a host: (list . "0.0.0.0") */}}
{{- define "lacuna.listeners" -}}
{{- $host := index . 1 -}}
{{- $found := list -}}
{{- range (index . 0).Values.listeners -}}
{{- $found = append $found (printf "%s://%s:%v" .protocol $host .port) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}

{{/* The name of a listener's port. */}}
{{- define "lacuna.port" -}}
{{ .protocol | lower | replace "_" "-" }}
{{- end -}}

{{/* Whether a listener has TLS, and whether one has SASL; nothing if none has. */}}
{{- define "lacuna.hasTls" -}}
{{- range .Values.listeners -}}{{- if hasSuffix "SSL" .protocol -}}true{{- end -}}{{- end -}}
{{- end -}}

{{- define "lacuna.hasSasl" -}}
{{- range .Values.listeners -}}{{- if hasPrefix "SASL_" .protocol -}}true{{- end -}}{{- end -}}
{{- end -}}

{{/* The first mechanism of SASL by which the demo could log in. */}}
{{- define "lacuna.passwordMechanism" -}}
{{- without .Values.sasl.enabledMechanisms "OAUTHBEARER" | first | default "" -}}
{{- end -}}

{{/* Whether there is a demo to run. */}}
{{- define "lacuna.hasDemo" -}}
{{- $first := first .Values.listeners -}}
{{- $canLogIn := and .Values.sasl.users (include "lacuna.passwordMechanism" .) -}}
{{- if and .Values.tests.enabled (or $canLogIn (not (hasPrefix "SASL_" $first.protocol))) -}}true{{- end -}}
{{- end -}}

{{/* Where the Secrets are. No subPath is used: files in one would not change when the Secret does. */}}
{{- define "lacuna.secrets" -}}
/run/secrets/lacuna
{{- end -}}

{{/* The Secrets that the pods of a component need, by the name of their volume. (list . "agent") */}}
{{- define "lacuna.mounted" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- if ne $component "controlplane" -}}
{{- if include "lacuna.hasTls" $root }}
tls: {{ $root.Values.tls.existingSecret }}
{{- end }}
{{- if and (include "lacuna.hasSasl" $root) $root.Values.sasl.users }}
users: {{ $root.Values.sasl.existingSecret }}
{{- end }}
{{- end }}
{{- with $root.Values.controlTls.existingSecret }}
control-tls: {{ . }}
{{- end }}
{{- if ne $component "test" }}
{{- with $root.Values.encryption.existingSecret }}
encryption: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The files that are no secrets: settings, who the first users are and where their passwords are, and how the demo
connects. */}}
{{- define "lacuna.files" -}}
{{- $secrets := include "lacuna.secrets" . -}}
{{- with .Values.settings }}
lacuna.toml: |
  {{- range $key, $value := . }}
  {{ $key }} = {{ toJson $value }}
  {{- end }}
{{- end }}
{{- if and (include "lacuna.hasSasl" .) .Values.sasl.users }}
users.toml: |
  {{- range .Values.sasl.users }}
  {{ toJson . }} = "file:{{ $secrets }}/users/{{ . }}"
  {{- end }}
{{- end }}
{{- $first := first .Values.listeners }}
{{- if and (include "lacuna.hasDemo" .) (ne $first.protocol "PLAINTEXT") }}
demo.properties: |
  security.protocol={{ $first.protocol }}
  {{- if hasSuffix "SSL" $first.protocol }}
  {{- if .Values.tls.caEnabled }}
  ssl.ca.location={{ $secrets }}/tls/ca.crt
  {{- end }}
  {{- if and (eq $first.protocol "SSL") (ne .Values.tls.clientAuth "none") }}
  ssl.certificate.location={{ $secrets }}/tls/tls.crt
  ssl.key.location={{ $secrets }}/tls/tls.key
  {{- end }}
  {{- end }}
  {{- if hasPrefix "SASL_" $first.protocol }}
  sasl.mechanism={{ include "lacuna.passwordMechanism" . }}
  sasl.username={{ first .Values.sasl.users }}
  sasl.password=file:{{ $secrets }}/users/{{ first .Values.sasl.users }}
  {{- end }}
{{- end }}
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
  # It may read the files of Secrets, and others may not.
  fsGroup: 65532
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
{{- $files := include "lacuna.files" $root | trim }}
{{- $secrets := include "lacuna.mounted" . | fromYaml }}
{{- if or $files $secrets }}
volumes:
  {{- if $files }}
  - name: settings
    configMap:
      name: {{ include "lacuna.fullname" $root }}
  {{- end }}
  {{- range $name, $secret := $secrets }}
  - name: {{ $name }}
    secret:
      secretName: {{ $secret }}
      defaultMode: 0440
  {{- end }}
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
{{- $files := include "lacuna.files" $root | trim }}
{{- $secrets := include "lacuna.mounted" . | fromYaml }}
{{- if or $files $secrets }}
volumeMounts:
  {{- if $files }}
  - name: settings
    mountPath: /etc/lacuna
    readOnly: true
  {{- end }}
  {{- range $name, $_ := $secrets }}
  - name: {{ $name }}
    mountPath: {{ include "lacuna.secrets" $root }}/{{ $name }}
    readOnly: true
  {{- end }}
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
{{- if $root.Values.encryption.existingSecret }}
- name: LACUNA_ENCRYPTION_KEYS
  value: {{ include "lacuna.secrets" $root }}/encryption/{{ $root.Values.encryption.key }}
{{- end }}
{{- with include "lacuna.controlTls" $root }}
{{ . }}
{{- end }}
{{- /* A control plane asks ACLs about jobs, which it can tell from agents only by clusterPrincipals. */}}
{{- $has := or (eq (index . 1) "agent") $root.Values.controlTls.clusterPrincipals }}
{{- if and $root.Values.authorization.enabled $has }}
- name: LACUNA_AUTHORIZER_CLASS_NAME
  value: org.apache.kafka.metadata.authorizer.StandardAuthorizer
- name: LACUNA_SUPER_USERS
  value: {{ join ";" $root.Values.authorization.superUsers | quote }}
- name: LACUNA_ALLOW_EVERYONE_IF_NO_ACL_FOUND
  value: {{ $root.Values.authorization.allowEveryoneIfNoAclFound | quote }}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* How to reach a control plane that asks for certificates. */}}
{{- define "lacuna.controlTls" -}}
{{- if .Values.controlTls.existingSecret -}}
{{- $folder := printf "%s/control-tls" (include "lacuna.secrets" .) -}}
- name: LACUNA_CONTROLPLANE_SSL_CERTIFICATE_LOCATION
  value: {{ $folder }}/tls.crt
- name: LACUNA_CONTROLPLANE_SSL_KEY_LOCATION
  value: {{ $folder }}/tls.key
- name: LACUNA_CONTROLPLANE_SSL_CA_LOCATION
  value: {{ $folder }}/ca.crt
{{- with .Values.controlTls.clusterPrincipals }}
- name: LACUNA_CONTROLPLANE_CLUSTER_PRINCIPALS
  value: {{ join ";" . | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* What listeners with TLS and SASL need. */}}
{{- define "lacuna.clients" -}}
{{- if include "lacuna.hasTls" . }}
{{- $folder := printf "%s/tls" (include "lacuna.secrets" .) }}
- name: LACUNA_SSL_CERTIFICATE_LOCATION
  value: {{ $folder }}/tls.crt
- name: LACUNA_SSL_KEY_LOCATION
  value: {{ $folder }}/tls.key
{{- if .Values.tls.caEnabled }}
- name: LACUNA_SSL_CA_LOCATION
  value: {{ $folder }}/ca.crt
{{- end }}
- name: LACUNA_SSL_CLIENT_AUTH
  value: {{ .Values.tls.clientAuth }}
{{- end }}
{{- if include "lacuna.hasSasl" . }}
- name: LACUNA_SASL_ENABLED_MECHANISMS
  value: {{ join "," .Values.sasl.enabledMechanisms }}
{{- if .Values.sasl.users }}
- name: LACUNA_SASL_USERS_FILE
  value: /etc/lacuna/users.toml
{{- end }}
{{- end }}
{{- end -}}

{{/* Pods are replaced when the settings or the users change, since these are read once. */}}
{{- define "lacuna.annotations" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
checksum/settings: {{ include "lacuna.files" $root | sha256sum }}
{{- with $values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
