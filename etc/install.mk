# SPDX-License-Identifier: Apache-2.0
#
# Building, installing and uninstalling: the part of the Makefile that socket_vmnet has too. Upstream's targets and variables have
# upstream's effects; where one has another, docs/install.md says why.

# One after the other, whatever -j says: what is checked is checked before anything is changed.
.NOTPARALLEL:

# The machine that is built for: nothing, if this is it.
ifeq (,$(ARCH))
TARGETARCH := $(GOARCH)
else ifneq (,$(filter arm64 aarch64,$(ARCH)))
TARGETARCH := arm64
else ifneq (,$(filter x86_64 amd64,$(ARCH)))
TARGETARCH := amd64
else
$(error ARCH=$(ARCH) is neither arm64 nor x86_64)
endif
TARGETOS := $(or $(GOOS),$(shell uname -s | tr '[:upper:]' '[:lower:]'))

# sudo on macOS keeps HOME: root would fill the user's caches with files that the user cannot change any more.
SUDOCACHE := $(shell if [ -n "$$SUDO_UID" ] && [ "$$(id -u)" = 0 ] && [ -d "$$HOME" ] && [ ! -O "$$HOME" ]; then pwd; fi)
GOCOMMAND = $(if $(SUDOCACHE),GOCACHE=$(call q,$(SUDOCACHE)/build/root/cache) GOMODCACHE=$(call q,$(SUDOCACHE)/build/root/modules) GOFLAGS=-modcacherw )$(GO)
SIGN = GOOS= GOARCH= $(GOCOMMAND) -C tools/release run . sign -identifier io.github.socket-vmnet2.$(1) $(2) $(call q,$(BIN)/$(1))

.PHONY: check.version
check.version:
	@case $(call q,$(VERSION)) in v | *[!A-Za-z0-9._+~-]*) \
		printf 'VERSION=%s: want letters, digits and any of ._+~-, as in v1.2.3\n' $(call q,$(VERSION)) >&2; exit 1;; esac

.PHONY: check.go
check.go:
	@command -v $(firstword $(GO)) >/dev/null || { echo 'Go is missing, version 1.26 or newer: https://go.dev/dl/' >&2; exit 1; }

# The binaries are real files: Lima refuses a symbolic link, and their names decide what they are. Signing is the last step, for
# macOS 26, which reads from the signature whether a daemon that is not root may have a network. built.txt, the very last file, says
# that all of them are there and what was asked for.
.PHONY: build
build: check.version check.go
	@mkdir -p $(call q,$(BIN)) && rm -f $(call q,$(BIN)/built.txt)
	for p in socket_vmnet2 socket_vmnet_client vmnet-helper; do \
		GOOS=$(TARGETOS) GOARCH=$(TARGETARCH) $(GOCOMMAND) build -trimpath -buildvcs=false -ldflags "$(if $(DEBUG),$(SETVERSION),$(LDFLAGS))" \
			-o $(call q,$(BIN))/"$$p" ./cmd/"$$p" || exit 1; done
ifeq (darwin,$(TARGETOS))
	$(call SIGN,socket_vmnet2,-entitlements etc/entitlements.plist)
	$(call SIGN,socket_vmnet_client,)
	$(call SIGN,vmnet-helper,)
endif
	rm -f $(call q,$(BIN)/socket_vmnet)
	cp $(call q,$(BIN)/socket_vmnet2) $(call q,$(BIN)/socket_vmnet)
	@printf '%s\n' $(call q,VERSION=$(VERSION)) GOOS=$(TARGETOS) GOARCH=$(TARGETARCH) > $(call q,$(BIN)/built.txt)

# ASKED is what the user has said about the programs to install; the rest is as it was when they were built. So after "make" the
# command "sudo make install" needs no Go, and after "make ARCH=arm64" it installs for arm64, as upstream's does.
ASKED = $(if $(filter command environment,$(origin VERSION)),$(call q,VERSION=$(VERSION))) \
	$(if $(GOOS),GOOS=$(TARGETOS)) $(if $(TARGETARCH),GOARCH=$(TARGETARCH))

.PHONY: built
built: check.version
	@cd $(call q,$(CURDIR)) && built=$(call q,$(BIN)/built.txt) && \
	if [ -f "$$built" ] && (for a in $(ASKED); do grep -qxFe "$$a" "$$built" || exit 1; done) && \
		[ -z "$$(find cmd internal tools/release etc/entitlements.plist go.mod go.sum -type f -newer "$$built" ! -name '*_test.go' -print)" ]; \
	then echo 'what was built last is installed'; else $(MAKE) build; fi

DEST    = $(DESTDIR)$(PREFIX)
DOCDIR  = $(DEST)/share/doc/socket_vmnet
DAEMONS = $(DESTDIR)/Library/LaunchDaemons
UNITS   = $(DESTDIR)/etc/systemd/system
MKDIR   = umask 022 && $(INSTALL) -d

.PHONY: check.prefix
check.prefix:
	@case $(call q,$(PREFIX)) in /?*) ;; *) \
		printf 'PREFIX=%s: want an absolute path, as in /opt/socket_vmnet\n' $(call q,$(PREFIX)) >&2; exit 1;; esac
	@case $(call q,$(BRIDGED)) in *[!A-Za-z0-9._-]*) \
		printf 'BRIDGED=%s: want the name of an interface, as in en0\n' $(call q,$(BRIDGED)) >&2; exit 1;; esac

.PHONY: install.bin
install.bin: check.prefix built
	@$(MKDIR) $(call q,$(DEST)/bin) $(call q,$(DEST)/libexec)
	@for f in $(BINARIES); do $(INSTALL) -m 755 $(call q,$(BIN))/"$$f" $(call q,$(DEST)/bin) || exit 1; done
	@$(INSTALL) -m 755 $(call q,$(BIN)/vmnet-helper) $(call q,$(DEST)/libexec)
	@printf 'programs: %s\n' $(call q,$(DEST)/bin)

# $(call put,FILES,DIRECTORY) installs files, if there are any.
put = $(if $(strip $(1)),@$(MKDIR) $(call q,$(2)) && $(INSTALL) -m 644 $(1) $(call q,$(2)),@:)

MAN8     = $(wildcard docs/man/*.8)
MAN1     = $(wildcard docs/man/*.1)
SYSTEMD  = $(wildcard etc/systemd/*.service etc/systemd/*.socket)
SYSUSERS = $(wildcard etc/sysusers.d/*.conf)
# bash and fish look for a file of the command's name, and these are for all three.
BASHCOMP = $(wildcard etc/completions/socket_vmnet2.bash)
FISHCOMP = $(wildcard etc/completions/socket_vmnet2.fish)
ZSHCOMP  = $(wildcard etc/completions/_*)

.PHONY: install.doc
install.doc: check.prefix
	$(call put,README.md LICENSE $(wildcard MIGRATION.md CHANGELOG.md),$(DOCDIR))
	$(call put,$(wildcard docs/*.*),$(DOCDIR)/docs)
	$(call put,$(wildcard docs/integrations/*.*),$(DOCDIR)/docs/integrations)
	$(call put,$(wildcard docs/performance/*.*),$(DOCDIR)/docs/performance)
	$(call put,$(wildcard docs/recordings/*.svg),$(DOCDIR)/docs/recordings)
	$(call put,$(wildcard docs/reliability/*.*),$(DOCDIR)/docs/reliability)
	$(call put,$(wildcard etc/launchd/*.plist),$(DOCDIR)/launchd)
	$(call put,$(wildcard etc/sudoers.d/*),$(DOCDIR)/etc_sudoers.d)
	$(call put,$(SYSTEMD),$(DOCDIR)/systemd)
	$(call put,$(wildcard etc/systemd/user/*),$(DOCDIR)/systemd/user)
	$(call put,$(SYSUSERS),$(DOCDIR)/sysusers.d)
	$(call put,$(MAN8),$(DEST)/share/man/man8)
	$(call put,$(MAN1),$(DEST)/share/man/man1)
	$(call put,$(ZSHCOMP),$(DEST)/share/zsh/site-functions)
	$(if $(BASHCOMP),@$(MKDIR) $(call q,$(DEST)/share/bash-completion/completions))
	@for f in $(if $(BASHCOMP),$(BINARIES)); do \
		$(INSTALL) -m 644 $(BASHCOMP) $(call q,$(DEST)/share/bash-completion/completions)/"$$f" || exit 1; done
	$(if $(FISHCOMP),@$(MKDIR) $(call q,$(DEST)/share/fish/vendor_completions.d))
	@for f in $(if $(FISHCOMP),$(BINARIES)); do \
		$(INSTALL) -m 644 $(FISHCOMP) $(call q,$(DEST)/share/fish/vendor_completions.d)/"$$f".fish || exit 1; done

# PREFIX/bin is in no PATH: links in /usr/local lead to what shells, sudo and man look for. What else has these names stays.
OWNDIR  = $(filter-out /usr /usr/local,$(PREFIX))
PLACED  = $(BINARIES:%=bin/%) $(MAN8:docs/man/%=share/man/man8/%) $(MAN1:docs/man/%=share/man/man1/%) \
	$(ZSHCOMP:etc/completions/%=share/zsh/site-functions/%) $(if $(FISHCOMP),$(BINARIES:%=share/fish/vendor_completions.d/%.fish)) \
	$(if $(BASHCOMP),$(BINARIES:%=share/bash-completion/completions/%))

.PHONY: install.links
install.links: check.prefix
	@for f in $(if $(OWNDIR),$(PLACED)); do to=$(call q,$(DESTDIR)/usr/local)/$$f; from=$(call q,$(PREFIX))/$$f; \
		if [ "$$(readlink "$$to")" = "$$from" ]; then continue; fi; \
		if [ -e "$$to" ] || [ -L "$$to" ]; then echo "$$to was there before and stays"; continue; fi; \
		$(MKDIR) "$${to%/*}" && ln -s "$$from" "$$to" || exit 1; done
	@$(if $(OWNDIR),printf 'in PATH by links: %s\n' $(call q,$(DESTDIR)/usr/local/bin),:)

# --- services -------------------------------------------------------------------------------------------------------------------

LABEL   := io.github.socket-vmnet2.socket_vmnet2
LABELS   = $(LABEL) $(if $(BRIDGED),$(LABEL).bridged.$(BRIDGED))
SERVICE := $(if $(filter darwin,$(TARGETOS)),launchd,$(if $(filter linux,$(TARGETOS)),systemd))
# The texts for XML, and then for the right side of sed's s@@@.
xml     = $(subst >,&gt;,$(subst <,&lt;,$(subst &,&amp;,$(1))))
sedtext = $(subst @,\@,$(subst &,\&,$(subst \,\\,$(1))))
# $(call plist,SED COMMANDS,FROM,LABEL) puts the prefix into a property list and installs it.
plist   = sed -e $(call q,s@/opt/socket_vmnet@$(call sedtext,$(call xml,$(PREFIX)))@g) $(1) etc/launchd/$(2).plist > $(call q,$(DAEMONS)/$(3).plist) && \
	chmod 644 $(call q,$(DAEMONS)/$(3).plist)

.PHONY: install.launchd.plist
install.launchd.plist: check.prefix
	@$(MKDIR) $(call q,$(DAEMONS))
	@$(call plist,,$(LABEL),$(LABEL))
ifneq (,$(BRIDGED))
	@$(call plist,-e 's/en0/$(BRIDGED)/g',$(LABEL).bridged.en0,$(LABEL).bridged.$(BRIDGED))
endif
	@for d in $$(sed -n 's@.*<string>\(/var/log/.*\)/[^/]*</string>.*@\1@p' etc/launchd/$(LABEL).plist | sort -u); do \
		$(MKDIR) $(call q,$(DESTDIR))"$$d" || exit 1; done

# launchd and systemd are this machine's, not those of DESTDIR.
.PHONY: install.launchd
install.launchd: check.launchd install.launchd.plist
ifeq (,$(DESTDIR))
	@for l in $(LABELS); do etc/launchd.sh load "$$l" /Library/LaunchDaemons/"$$l".plist || exit 1; done
else
	@echo 'DESTDIR is set: no job is started'
endif

.PHONY: check.launchd
check.launchd:
ifeq (,$(DESTDIR))
	@BRIDGED=$(call q,$(BRIDGED)) etc/launchd.sh check etc/launchd/$(LABEL).plist $(if $(BRIDGED),etc/launchd/$(LABEL).bridged.en0.plist)
endif

.PHONY: install.systemd.unit
install.systemd.unit: check.prefix
	@case $(call q,$(PREFIX)) in *[!A-Za-z0-9/._+@:,~-]*) printf \
		'PREFIX=%s: systemd cannot have this in a unit as it is; want letters, digits and any of /._+@:,~-\n' $(call q,$(PREFIX)) >&2; exit 1;; esac
	@$(MKDIR) $(call q,$(UNITS))
	@for f in $(SYSTEMD); do sed -e $(call q,s@/opt/socket_vmnet@$(call sedtext,$(PREFIX))@g) "$$f" > $(call q,$(UNITS))/"$${f##*/}" && \
		chmod 644 $(call q,$(UNITS))/"$${f##*/}" || exit 1; done
	$(call put,$(SYSUSERS),$(DESTDIR)/etc/sysusers.d)

.PHONY: install.systemd
install.systemd: check.systemd install.systemd.unit
ifeq (,$(DESTDIR))
	systemd-sysusers $(SYSUSERS:etc/%=/etc/%)
	systemctl daemon-reload
	systemctl enable socket_vmnet2.service
	systemctl restart socket_vmnet2.service
else
	@echo 'DESTDIR is set: no unit is started'
endif

.PHONY: check.systemd
check.systemd:
ifneq (,$(BRIDGED))
	@echo 'BRIDGED=$(BRIDGED): bridged mode is of macOS alone' >&2; exit 1
endif
ifeq (,$(DESTDIR))
	@command -v systemctl >/dev/null && [ -d /run/systemd/system ] || { echo 'systemd does not run here, so nothing can be started: run' \
		'"make install.bin install.doc install.links install.systemd.unit" to install the files alone, or set DESTDIR to prepare another machine'"'s" >&2; exit 1; }
endif

.PHONY: install
install: $(SERVICE:%=check.%) install.bin install.doc install.links $(SERVICE:%=install.%)
	@echo 'socket: /var/run/socket_vmnet, for root and the group $(if $(filter linux,$(TARGETOS)),kvm,staff)'

# --- in the place of socket_vmnet, and back ---------------------------------------------------------------------------------------

# $(call program,CANDIDATES) is the first of them that runs here, else the sources.
program = p=; for c in $(1); do if "$$c" --version >/dev/null 2>&1; then p=$$c; break; fi; done; \
	if [ -z "$$p" ]; then set -- env GOOS= GOARCH= $(GOCOMMAND) run ./cmd/socket_vmnet2; else set -- "$$p"; fi; "$$@"
WHERE   = --prefix=$(call q,$(PREFIX)) $(if $(DESTDIR),--root=$(call q,$(DESTDIR)))
BINPATH = $(if $(filter /%,$(firstword $(BIN))),$(BIN),$(CURDIR)/$(BIN))

.PHONY: install.compat
install.compat: check.prefix built
	$(if $(DESTDIR),@$(MKDIR) $(call q,$(DESTDIR)))
	@$(call program,$(call q,$(BINPATH)/socket_vmnet2)) install $(WHERE) --from=$(call q,$(BINPATH))

.PHONY: rollback
rollback: check.prefix
	@$(call program,$(call q,$(DEST)/share/socket_vmnet2/backup/socket_vmnet2) $(call q,$(DEST)/bin/socket_vmnet2) $(call q,$(BINPATH)/socket_vmnet2)) \
		rollback $(WHERE)

# --- uninstall --------------------------------------------------------------------------------------------------------------------

.PHONY: uninstall.bin
uninstall.bin: check.prefix
	@for f in $(BINARIES); do rm -f $(call q,$(DEST)/bin)/"$$f" || exit 1; done
	@rm -f $(call q,$(DEST)/libexec/vmnet-helper)

.PHONY: uninstall.doc
uninstall.doc: check.prefix
	@rm -rf $(call q,$(DOCDIR))
	@for f in $(notdir $(MAN8)); do rm -f $(call q,$(DEST)/share/man/man8)/"$$f" || exit 1; done
	@for f in $(notdir $(MAN1)); do rm -f $(call q,$(DEST)/share/man/man1)/"$$f" || exit 1; done
	@for f in $(notdir $(ZSHCOMP)); do rm -f $(call q,$(DEST)/share/zsh/site-functions)/"$$f" || exit 1; done
	@for f in $(BINARIES); do rm -f $(call q,$(DEST)/share/bash-completion/completions)/"$$f" \
		$(call q,$(DEST)/share/fish/vendor_completions.d)/"$$f".fish || exit 1; done

.PHONY: uninstall.links
uninstall.links: check.prefix
	@for f in $(if $(OWNDIR),$(PLACED)); do to=$(call q,$(DESTDIR)/usr/local)/$$f; \
		if [ "$$(readlink "$$to")" = $(call q,$(PREFIX))/$$f ]; then rm -f "$$to" || exit 1; fi; done

# Those that are empty now, the deepest first.
DIRS    = share/man/man8 share/man/man1 share/bash-completion/completions share/bash-completion share/zsh/site-functions share/zsh \
	share/fish/vendor_completions.d share/fish share/doc

.PHONY: uninstall.dirs
uninstall.dirs: check.prefix
	@for d in $(DIRS) $(if $(OWNDIR),share/man share bin libexec ''); do rmdir $(call q,$(DEST))/"$$d" 2>/dev/null || :; done
	@for d in $(if $(OWNDIR),$(DIRS)); do rmdir $(call q,$(DESTDIR)/usr/local)/"$$d" 2>/dev/null || :; done

.PHONY: uninstall.launchd
uninstall.launchd: check.prefix
ifeq (,$(DESTDIR))
	@for l in $(LABELS); do etc/launchd.sh unload "$$l" || exit 1; done
endif

.PHONY: uninstall.launchd.plist
uninstall.launchd.plist: uninstall.launchd
	@for l in $(LABELS); do rm -f $(call q,$(DAEMONS))/"$$l".plist || exit 1; done

.PHONY: uninstall.systemd
uninstall.systemd: check.prefix
ifeq (,$(DESTDIR))
	@for f in $(notdir $(SYSTEMD)); do systemctl disable --now "$$f" 2>/dev/null || true; done
endif

.PHONY: uninstall.systemd.unit
uninstall.systemd.unit: uninstall.systemd
	@for f in $(notdir $(SYSTEMD)); do rm -f $(call q,$(UNITS))/"$$f" || exit 1; done
	@for f in $(notdir $(SYSUSERS)); do rm -f $(call q,$(DESTDIR)/etc/sysusers.d)/"$$f" || exit 1; done
	$(if $(DESTDIR),,systemctl daemon-reload 2>/dev/null || true)

# What a daemon leaves, and that of socket_vmnet with it, as upstream. SOCKET.d is a directory.
.PHONY: uninstall.run
uninstall.run:
	@rm -rf $(call q,$(DESTDIR))/var/run/socket_vmnet*

.PHONY: uninstall
uninstall: $(SERVICE:%=uninstall.%$(if $(filter launchd,$(SERVICE)),.plist,.unit)) uninstall.links uninstall.doc uninstall.bin uninstall.run uninstall.dirs
