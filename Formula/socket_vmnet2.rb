# SPDX-License-Identifier: Apache-2.0
#
# For a tap. As it is in the repository it builds the main branch (brew install --HEAD); a release puts in the url and the
# sha256 of its tag (docs/releasing.md). test/formula runs all of it without Homebrew.
class SocketVmnet2 < Formula
  desc "Network daemon for virtual machines, in place of socket_vmnet"
  homepage "https://github.com/socket-vmnet2/socket_vmnet2"
  license "Apache-2.0"
  head "https://github.com/socket-vmnet2/socket_vmnet2.git", branch: "main"

  livecheck do
    url :stable
    strategy :github_latest
  end

  keg_only "root runs it on macOS 15 and older, and other users can often write to Homebrew's bin directory"

  depends_on "go" => :build

  on_macos do
    depends_on macos: :monterey # what Go 1.26 needs
  end

  def install
    # Homebrew writes the launchd job itself, from the service block.
    system "make", "install.bin", "install.doc", "VERSION=#{version}", "PREFIX=#{prefix}"
    return unless OS.mac?

    # The last step, whatever was done to the files before: arm64 starts nothing unsigned, and macOS 26 wants the entitlement
    # of whom it gives vmnet.framework without root. A copy keeps a signature; strip and install_name_tool do not.
    %w[socket_vmnet socket_vmnet2].each do |name|
      system "codesign", "--force", "--sign", "-", "--identifier", "io.github.socket-vmnet2.socket_vmnet2",
             "--entitlements", "etc/entitlements.plist", bin/name
    end
  end

  post_install_steps do
    mkdir_p "run", base: :var
    mkdir_p "log/socket_vmnet2", base: :var
  end

  def caveats
    <<~EOS
      It serves the socket that socket_vmnet serves, so stop that one first:
        sudo brew services stop socket_vmnet
      Start it on macOS 26 and newer, and on Linux, as an ordinary user:
        brew services start socket_vmnet2
      and on macOS 15 and older, which let only root use vmnet.framework:
        sudo brew services start socket_vmnet2
      Be certain that you trust any software that you run as root.

      minikube:
        minikube start --driver=qemu --network=socket_vmnet \\
          --socket-vmnet-path=#{var}/run/socket_vmnet \\
          --socket-vmnet-client-path=#{opt_bin}/socket_vmnet_client

      Lima, in the virtual machine's YAML:
        networks:
        - socket: #{var}/run/socket_vmnet
      Lima starts a daemon itself (`- lima: shared`) only from directories that belong to root. For that:
        sudo #{opt_bin}/socket_vmnet2 install
      and to get back what was in /opt/socket_vmnet before:
        sudo #{opt_bin}/socket_vmnet2 rollback

      Back to socket_vmnet, with sudo in the first line if it was started with it:
        brew services stop socket_vmnet2
        sudo brew services start socket_vmnet
    EOS
  end

  service do
    run [opt_bin/"socket_vmnet2", "--vmnet-gateway=192.168.105.1", var/"run/socket_vmnet"]
    run_type :immediate
    keep_alive true
    process_type :interactive # else macOS slows it down to about half
    throttle_interval 30 # from start to start: what cannot start is tried now and then, what has run is started at once
    require_root OS.mac? && MacOS.version <= :sequoia
    error_log_path var/"log/socket_vmnet2/stderr"
    log_path var/"log/socket_vmnet2/stdout"
  end

  test do
    # As an ordinary user. The first line is what socket_vmnet's own formula tests.
    %w[socket_vmnet socket_vmnet2].each do |name|
      assert_match "bind: Address already in use", shell_output("#{opt_bin}/#{name} /dev/null 2>&1", 1)
      assert_match version.to_s, shell_output("#{opt_bin}/#{name} --version")
    end
    assert_path_exists libexec/"vmnet-helper"

    # The embedded network needs no privileges: a client gets through to the daemon.
    socket = testpath/"socket"
    pid = spawn("#{opt_bin}/socket_vmnet2", "--backend=usernet", "--runtime-dir=none", "--state-dir=#{testpath}",
                "--vmnet-gateway=192.168.105.1", socket.to_s)
    begin
      100.times { socket.exist? ? break : sleep(0.1) }
      system "#{opt_bin}/socket_vmnet_client", socket.to_s, "true"
    ensure
      Process.kill("TERM", pid)
      Process.wait(pid)
    end
    assert_equal 0, $CHILD_STATUS.exitstatus

    if OS.mac?
      entitlements = shell_output("codesign --display --entitlements - #{opt_bin}/socket_vmnet2 2>&1")
      assert_match "com.apple.security.virtualization", entitlements
    end
  end
end
