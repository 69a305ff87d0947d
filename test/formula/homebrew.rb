# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for as much of Homebrew as the formula uses, to run the formula where Homebrew is not:
#
#   ruby homebrew.rb [--macos=VERSION] [--version=VERSION] [--record] PREFIX FORMULA facts|service|install|post_install|test
#
# It prints JSON. What Homebrew does not know, or what a formula may not ask for at that place, is an error here too: a word
# that is not defined below, MacOS.version on Linux, a value of the wrong kind. --record writes down the commands of install
# and runs none.
require "English"
require "fileutils"
require "json"
require "optparse"
require "pathname"

OPTIONS = {}.dup
OptionParser.new do |o|
  o.on("--macos=VERSION") { |v| OPTIONS[:macos] = v }
  o.on("--version=VERSION") { |v| OPTIONS[:version] = v }
  o.on("--record") { OPTIONS[:record] = true }
end.parse!
abort "want PREFIX FORMULA ACTION, got #{ARGV.inspect}" if ARGV.length != 3
HOMEBREW_PREFIX = Pathname.new(ARGV[0])

# OS is what the formula is told that it runs on.
module OS
  def self.mac?
    OPTIONS.key?(:macos)
  end

  def self.linux?
    !mac?
  end
end

# MacOS is there on macOS only: a formula that asks elsewhere has forgotten OS.mac?.
module MacOS
  # Version compares itself with Homebrew's names of releases.
  class Version
    include Comparable
    NAMES = { monterey: 12, ventura: 13, sonoma: 14, sequoia: 15, tahoe: 26 }.freeze
    attr_reader :major

    def initialize(text)
      @major = Integer(text[/\A\d+/])
    end

    def <=>(other)
      major <=> NAMES.fetch(other)
    end
  end

  def self.version
    raise "MacOS.version on Linux" unless OS.mac?

    Version.new(OPTIONS[:macos])
  end
end

# Homebrew is where the service block's words are.
module Homebrew
  # Service takes each word once, with a value of its kind.
  class Service
    KINDS = {
      run:               ->(v) { v.is_a?(Array) && v.all? { |a| a.is_a?(String) || a.is_a?(Pathname) } },
      run_type:          ->(v) { [:immediate, :interval, :cron].include?(v) },
      keep_alive:        ->(v) { [true, false].include?(v) || v.is_a?(Hash) },
      process_type:      ->(v) { [:background, :standard, :interactive, :adaptive].include?(v) },
      throttle_interval: ->(v) { v.is_a?(Integer) },
      restart_delay:     ->(v) { v.is_a?(Integer) },
      require_root:      ->(v) { [true, false].include?(v) },
      error_log_path:    ->(v) { v.is_a?(String) || v.is_a?(Pathname) },
      log_path:          ->(v) { v.is_a?(String) || v.is_a?(Pathname) },
    }.freeze
    attr_reader :values

    def initialize(formula, &block)
      @formula = formula
      @values = {}
      instance_eval(&block)
    end

    KINDS.each do |word, kind|
      define_method(word) do |value|
        raise TypeError, "service: #{word} #{value.inspect}" unless kind.call(value)
        raise TypeError, "service: #{word} twice" if @values.key?(word)

        @values[word] = value
      end
    end

    # No bin, no prefix: they change with each version.
    [:opt_bin, :opt_libexec, :opt_prefix, :var, :etc].each do |place|
      define_method(place) { @formula.public_send(place) }
    end
  end
end

# InstallSteps makes directories, as post_install_steps may, with a base that is said.
class InstallSteps
  def initialize(formula, &block)
    @formula = formula
    instance_eval(&block)
  end

  def mkdir_p(path, base:)
    FileUtils.mkpath(@formula.public_send(base)/path)
  end
end

# Livecheck only takes its words.
class Livecheck
  attr_reader :values

  def initialize(&block)
    @values = {}
    instance_eval(&block)
  end

  [:url, :strategy].each { |word| define_method(word) { |value| @values[word] = value } }
end

# Assertions are those of a formula's test block.
module Assertions
  class Failed < StandardError; end

  def shell_output(command, expected = 0)
    out = IO.popen(["/bin/sh", "-c", command], &:read)
    status = $CHILD_STATUS.exitstatus
    raise Failed, "#{command}: exit code #{status.inspect}, want #{expected}\n#{out}" if status != expected

    outputs << [command, out]
    out
  end

  def outputs
    @outputs ||= []
  end

  def assert_match(pattern, text)
    found = pattern.is_a?(String) ? text.include?(pattern) : pattern.match?(text)
    raise Failed, "no #{pattern.inspect} in #{text.inspect}" unless found
  end

  def assert_equal(want, got)
    raise Failed, "#{got.inspect}, want #{want.inspect}" if want != got
  end

  def assert_path_exists(path)
    raise Failed, "no #{path}" unless File.exist?(path)
  end
end

# Formula has the words of a formula's class, and what its methods may use.
class Formula
  include Assertions

  class << self
    attr_reader :facts, :service_block, :test_block, :steps_block

    def inherited(subclass)
      super
      subclass.instance_variable_set(:@facts, { depends_on: [] })
      Formula.instance_variable_set(:@latest, subclass)
    end

    def latest
      @latest or raise "no class in the formula"
    end

    [:desc, :homepage, :url, :sha256, :license, :keg_only].each do |word|
      define_method(word) { |value| facts[word] = value }
    end

    def head(url, branch:)
      facts[:head] = { url: url, branch: branch }
    end

    def depends_on(what)
      facts[:depends_on] << what
    end

    def on_macos(&block)
      instance_eval(&block) if OS.mac?
    end

    def livecheck(&block)
      facts[:livecheck] = Livecheck.new(&block).values
    end

    def service(&block)
      @service_block = block
    end

    def post_install_steps(&block)
      @steps_block = block
    end

    def test(&block)
      @test_block = block
    end
  end

  attr_reader :commands

  def initialize
    @commands = []
  end

  def name
    self.class.name.gsub(/(?<=[a-z0-9])[A-Z]/) { |c| "_#{c}" }.downcase
  end

  # version is in the address of a release; without one Homebrew builds the main branch.
  def version
    OPTIONS[:version] || self.class.facts[:url].to_s[%r{/v?([0-9][^/]*)\.tar\.gz\z}, 1] || "HEAD-abcdef0"
  end

  def prefix
    HOMEBREW_PREFIX/"Cellar"/name/version
  end

  def opt_prefix
    HOMEBREW_PREFIX/"opt"/name
  end

  def var
    HOMEBREW_PREFIX/"var"
  end

  def etc
    HOMEBREW_PREFIX/"etc"
  end

  def testpath
    HOMEBREW_PREFIX/"test"
  end

  { bin: "bin", libexec: "libexec", share: "share" }.each do |place, dir|
    define_method(place) { prefix/dir }
    define_method("opt_#{place}") { opt_prefix/dir }
  end

  def system(*args)
    args.map!(&:to_s)
    commands << args
    return if OPTIONS[:record]
    return if Kernel.system(*args, out: :err)

    raise "#{args.join(" ")}: exit code #{$CHILD_STATUS&.exitstatus.inspect}"
  end

  # run_action does what brew does around the formula's own code.
  def run_action(action)
    case action
    when "facts" then self.class.facts.merge(name: name, version: version, caveats: caveats)
    when "service" then Homebrew::Service.new(self, &self.class.service_block).values
    when "install" then run_install
    when "post_install" then InstallSteps.new(self, &self.class.steps_block) && nil
    when "test" then run_test
    else raise "unknown action #{action}"
    end
  end

  def run_install
    FileUtils.mkpath(prefix) unless OPTIONS[:record]
    install
    return commands if OPTIONS[:record]

    FileUtils.mkpath(opt_prefix.dirname)
    FileUtils.rm_f(opt_prefix)
    FileUtils.ln_s(prefix.relative_path_from(opt_prefix.dirname), opt_prefix)
    commands
  end

  def run_test
    FileUtils.mkpath(testpath)
    Dir.chdir(testpath) { instance_eval(&self.class.test_block) }
    { outputs: outputs, commands: commands }
  end
end

load File.expand_path(ARGV[1])
puts JSON.pretty_generate(Formula.latest.new.run_action(ARGV[2]))
