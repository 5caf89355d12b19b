#include "core/comm/rendezvous/launch/shaped_network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

constexpr int kMaxHosts = 250;
constexpr double kMinBits = 1e6, kMaxBits = 1e12;

std::string NamespacePath(pid_t holder) { return absl::StrCat("/proc/", holder, "/ns/net"); }

// Starts a process that lives in a network namespace of its own and does nothing.
absl::StatusOr<pid_t> StartHolder() {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("a pipe: ", strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int error = getppid() != parent ? ESRCH : unshare(CLONE_NEWNET) == 0 ? 0 : errno;
    if (write(ready[1], &error, sizeof(error)) != sizeof(error) || error != 0) _exit(1);
    setpgid(0, 0);  // a terminal's Ctrl-C must not end it
    while (true) pause();
  }
  close(ready[1]);
  int error = EAGAIN;
  const ssize_t count = pid < 0 ? 0 : read(ready[0], &error, sizeof(error));
  close(ready[0]);
  if (count == sizeof(error) && error == 0) return pid;
  if (pid > 0) waitpid(pid, nullptr, 0);
  return absl::FailedPreconditionError(
      absl::StrCat("a network namespace cannot be created: ", strerror(error),
                   ". Run as root, or below `unshare --map-root-user --net`"));
}

// Runs a command of the shell; an error has what it printed.
absl::Status RunInShell(const std::string& command) {
  FILE* const pipe =
      popen(absl::StrCat("exec 2>&1; PATH=$PATH:/usr/sbin:/sbin; ", command).c_str(), "r");
  if (pipe == nullptr) return absl::ResourceExhaustedError(strerror(errno));
  std::string output;
  std::array<char, 512> piece;
  for (size_t count; (count = fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    output.append(piece.data(), count);
  }
  const int status = pclose(pipe);
  if (status == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("`", command, "` failed: ", absl::StripSuffix(output, "\n"),
                   ". It needs root and the programs of iproute2 (ip, tc)"));
}

// Returns the command that shapes what leaves through `device`.
std::string ShapeCommand(const std::string& device, double bits_per_second) {
  // A burst is what may pass at once at full speed: 1 ms, but at least a packet as TCP hands it to
  // the device, of 64 KiB. The queue holds 50 ms.
  const double bytes_per_second = bits_per_second / 8;
  const int64_t burst = std::max<int64_t>(96 << 10, static_cast<int64_t>(bytes_per_second * 1e-3));
  const int64_t queue = burst + static_cast<int64_t>(bytes_per_second * 50e-3);
  return absl::StrCat("tc qdisc add dev ", device, " root tbf rate ",
                      static_cast<int64_t>(bits_per_second), "bit burst ", burst, " limit ", queue);
}

}  // namespace

absl::StatusOr<double> ParseLinkSpeed(const std::string& text) {
  if (text == "unshaped") return 0;
  absl::string_view number(text);
  const double unit = absl::ConsumeSuffix(&number, "mbit")   ? 1e6
                      : absl::ConsumeSuffix(&number, "gbit") ? 1e9
                                                             : 0;
  double value = 0;
  if (unit > 0 && absl::SimpleAtod(number, &value) && value * unit >= kMinBits &&
      value * unit <= kMaxBits) {
    return value * unit;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no speed of a link: expected unshaped, or 1mbit to 1000gbit"));
}

std::string LinkSpeedText(double bits_per_second) {
  if (bits_per_second == 0) return "unshaped";
  const bool giga = bits_per_second >= 1e9;
  return absl::StrCat(bits_per_second / (giga ? 1e9 : 1e6), giga ? " Gb/s" : " Mb/s");
}

absl::StatusOr<std::unique_ptr<ShapedNetwork>> ShapedNetwork::Create(int num_hosts,
                                                                     double bits_per_second) {
  if (num_hosts < 1 || num_hosts > kMaxHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat("requested ", num_hosts, " hosts; a network has 1 to ", kMaxHosts));
  }
  std::unique_ptr<ShapedNetwork> network(new ShapedNetwork());
  DPIPE_RETURN_IF_ERROR(network->Build(num_hosts, bits_per_second));
  return network;
}

absl::Status ShapedNetwork::Build(int num_hosts, double bits_per_second) {
  own_network_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (own_network_ < 0) {
    return absl::FailedPreconditionError(absl::StrCat("/proc/self/ns/net: ", strerror(errno)));
  }
  for (int i = 0; i <= num_hosts; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const pid_t holder, StartHolder());
    holders_.push_back(holder);
  }
  const pid_t hub = holders_.back();
  const auto in = [](pid_t holder, const std::string& command) {
    return RunInShell(absl::StrCat("nsenter --net=", NamespacePath(holder), " ", command));
  };
  DPIPE_RETURN_IF_ERROR(in(hub, "ip link add switch type bridge"));
  DPIPE_RETURN_IF_ERROR(in(hub, "ip link set dev switch up"));
  for (int i = 0; i < num_hosts; ++i) {
    const pid_t host = holders_[i];
    const std::string port = absl::StrCat("port", i);
    DPIPE_RETURN_IF_ERROR(
        in(hub, absl::StrCat("ip link add ", port, " type veth peer name nic netns ", host)));
    DPIPE_RETURN_IF_ERROR(in(hub, absl::StrCat("ip link set dev ", port, " master switch up")));
    DPIPE_RETURN_IF_ERROR(in(host, absl::StrCat("ip address add ", Address(i), "/24 dev nic")));
    DPIPE_RETURN_IF_ERROR(in(host, "ip link set dev lo up"));
    DPIPE_RETURN_IF_ERROR(in(host, "ip link set dev nic up"));
    if (bits_per_second == 0) continue;
    DPIPE_RETURN_IF_ERROR(in(hub, ShapeCommand(port, bits_per_second)));
    DPIPE_RETURN_IF_ERROR(in(host, ShapeCommand("nic", bits_per_second)));
  }
  return absl::OkStatus();
}

ShapedNetwork::~ShapedNetwork() {
  for (const pid_t holder : holders_) {
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
  }
  if (own_network_ >= 0) close(own_network_);
}

std::string ShapedNetwork::Address(int host) const { return absl::StrCat("10.213.0.", host + 1); }

absl::Status ShapedNetwork::Enter(int host) const {
  DPIPE_CHECK(host >= 0 && host < num_hosts()) << host;
  const std::string path = NamespacePath(holders_[host]);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (entered) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("entering ", path, ": ", strerror(error)));
}

absl::Status ShapedNetwork::Leave() const {
  if (setns(own_network_, CLONE_NEWNET) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("returning to this program's network: ", strerror(errno)));
}

}  // namespace dpipe
