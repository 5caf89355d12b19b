#include "core/comm/rendezvous/launch/local_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/host/usable_cpus.h"
#include "core/base/time.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe {
namespace {

constexpr int kPollMillis = 50;

volatile std::sig_atomic_t signal_to_pass_on = 0;

void NoteSignal(int number) { signal_to_pass_on = number; }

// A process's output, printed in whole lines.
struct Stream {
  int fd = -1;
  FILE* to = nullptr;
  std::string line;
};

struct Child {
  pid_t pid = -1;
  bool running = false;
  Stream out, err;
  Socket holds;       // pipe from which its holds are read; see ExitHold
  bool held = false;  // its last report
  bool waited_for = false;
  Nanos kill_at_ns = std::numeric_limits<Nanos>::max();  // after a failure
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {}
  ~Launcher() {
    Signal(SIGKILL);
    for (Child& child : children_) {
      if (child.running) waitpid(child.pid, nullptr, 0);
    }
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
    sigaction(SIGHUP, &old_hup_, nullptr);
    sigaction(SIGCHLD, &old_child_, nullptr);
  }

  absl::StatusOr<int> Run() {
    CatchSignals();
    DPIPE_RETURN_IF_ERROR(Listen());
    job_ = absl::StrCat("local ", getpid(), " ", std::random_device()());
    for (int i = 0; i < options_.num_processes; ++i) DPIPE_RETURN_IF_ERROR(Start(i));
    listener_ = Socket();  // process 0 has inherited it
    while (NumRunning() > 0) {
      ForwardOutput();
      if (signal_to_pass_on != 0) {
        passed_on_ = std::exchange(signal_to_pass_on, 0);
        Signal(passed_on_);
      }
      Reap();
      if (failed_ns_ != kNever) KillLate();
    }
    ForwardOutput();  // the pipes' contents when the last process ended
    return exit_code_;
  }

 private:
  static constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

  static void Say(const std::string& line) {
    std::fprintf(stderr, "launcher: %s\n", line.c_str());
    std::fflush(stderr);
  }

  void CatchSignals() {
    struct sigaction action;
    std::memset(&action, 0, sizeof(action));
    action.sa_handler = NoteSignal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
    // Stays ignored if it was, as under nohup.
    sigaction(SIGHUP, nullptr, &old_hup_);
    if (old_hup_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
    // If it is ignored, which may be inherited, exit statuses of children are lost.
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &old_child_);
  }

  absl::Status Listen() {
    if (options_.network == nullptr) {
      DPIPE_ASSIGN_OR_RETURN(listener_, ListenOnLoopback());
      return absl::OkStatus();
    }
    master_ = options_.network->Address(0);
    DPIPE_RETURN_IF_ERROR(options_.network->Enter(0));
    auto listeners = ListenAt(master_, 0, /*on_several_hosts=*/true);
    DPIPE_RETURN_IF_ERROR(options_.network->Leave());
    DPIPE_RETURN_IF_ERROR(listeners.status());
    listener_ = std::move(listeners->front());
    return absl::OkStatus();
  }

  absl::Status Start(int number) {
    int out[2], err[2];
    int holds[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(holds, O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("a pipe: ", std::strerror(errno)));
    }
    const std::vector<std::string> environment = Environment(number, holds[1]);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("process ", number, ": ", std::strerror(errno)));
    }
    if (pid == 0) Become(number, parent, out[1], err[1], holds[1], environment);
    for (int fd : {out[1], err[1], holds[1]}) close(fd);
    Child child;
    child.pid = pid;
    child.running = true;
    child.out = {out[0], stdout, ""};
    child.err = {err[0], stderr, ""};
    child.holds = Socket(holds[0]);
    for (int fd : {out[0], err[0], holds[0]}) fcntl(fd, F_SETFL, O_NONBLOCK);
    children_.push_back(std::move(child));
    return absl::OkStatus();
  }

  // Runs in the child; does not return.
  [[noreturn]] void Become(int number, pid_t parent, int out, int err, int holds,
                           const std::vector<std::string>& environment) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the launcher has died already
    // A separate process group: the terminal's Ctrl-C arrives once, through the launcher.
    setpgid(0, 0);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    fcntl(holds, F_SETFD, 0);
    if (options_.network != nullptr) MoveToHost(number);
    if (number == 0) fcntl(listener_.fd(), F_SETFD, 0);
    std::vector<std::string> words = {options_.program};
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(&word[0]);
    for (const std::string& entry : environment) envp.push_back(const_cast<char*>(entry.c_str()));
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    execve(options_.program.c_str(), argv.data(), envp.data());
    std::fprintf(stderr, "%s cannot be started: %s\n", options_.program.c_str(),
                 std::strerror(errno));
    _exit(127);
  }

  // Runs in the child.
  void MoveToHost(int number) const {
    const absl::Status entered = options_.network->Enter(number);
    if (!entered.ok()) {
      std::fprintf(stderr, "%s\n", std::string(entered.message()).c_str());
      _exit(1);
    }
    const std::vector<int> cores = AllowedCores();
    const int count = static_cast<int>(cores.size()), num_hosts = options_.num_processes;
    const int share = std::max(1, count / num_hosts);
    cpu_set_t own;
    CPU_ZERO(&own);
    for (int i = 0; i < share; ++i) CPU_SET(cores[(number * share + i) % count], &own);
    sched_setaffinity(0, sizeof(own), &own);  // if it fails, the hosts share all cores
  }

  std::vector<std::string> Environment(int number, int holds) const {
    const bool one_host = options_.network == nullptr;
    std::vector<std::pair<std::string, std::string>> set = {
        {"RANK", absl::StrCat(number)},
        {"WORLD_SIZE", absl::StrCat(options_.num_processes)},
        {"LOCAL_RANK", absl::StrCat(one_host ? number : 0)},
        {"LOCAL_WORLD_SIZE", absl::StrCat(one_host ? options_.num_processes : 1)},
        {"MASTER_ADDR", master_},
        {"MASTER_PORT", absl::StrCat(listener_.port())},
        {"DPIPE_JOB", job_},
        {kSecretVariable, secret_.Hex()},
        {kLauncherVariable, absl::StrCat(getpid())},
        {kHoldVariable, absl::StrCat(holds)},
    };
    if (number == 0) set.push_back({kListenerVariable, absl::StrCat(listener_.fd())});
    std::vector<std::string> all;
    for (const auto& [name, value] : set) all.push_back(absl::StrCat(name, "=", value));
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const absl::string_view text(*entry);
      const absl::string_view name = text.substr(0, text.find('='));
      bool replaced = name == "TORCHELASTIC_USE_AGENT_STORE" || name == kListenerVariable;
      for (const auto& [own, value] : set) replaced = replaced || own == name;
      if (!replaced) all.emplace_back(text);
    }
    return all;
  }

  void ForwardOutput() {
    std::vector<pollfd> entries;
    std::vector<std::pair<int, Stream*>> streams;
    for (size_t i = 0; i < children_.size(); ++i) {
      for (Stream* stream : {&children_[i].out, &children_[i].err}) {
        if (stream->fd < 0) continue;
        entries.push_back({stream->fd, POLLIN, 0});
        streams.push_back({static_cast<int>(i), stream});
      }
    }
    poll(entries.data(), entries.size(), kPollMillis);
    for (const auto& [number, stream] : streams) Forward(number, stream);
  }

  static void Forward(int number, Stream* stream) {
    char piece[4096];
    ssize_t count;
    while ((count = read(stream->fd, piece, sizeof(piece))) > 0) {
      stream->line.append(piece, count);
      size_t end;
      while ((end = stream->line.find('\n')) != std::string::npos) {
        Print(number, stream, stream->line.substr(0, end));
        stream->line.erase(0, end + 1);
      }
    }
    if (count != 0) return;  // the pipe is still open
    if (!stream->line.empty()) Print(number, stream, stream->line);
    close(std::exchange(stream->fd, -1));
  }

  static void Print(int number, Stream* stream, const std::string& line) {
    std::fprintf(stream->to, "[%d] %s\n", number, line.c_str());
    std::fflush(stream->to);
  }

  void Signal(int number) {
    for (Child& child : children_) {
      if (child.running) kill(child.pid, number);
    }
  }

  // Kills processes whose time is up after a failure.
  void KillLate() {
    const Nanos now = MonotonicNow(), grace = absl::ToInt64Nanoseconds(options_.grace);
    int num_late = 0;
    for (size_t i = 0; i < children_.size(); ++i) {
      Child& child = children_[i];
      if (!child.running || child.kill_at_ns == kNever) continue;
      if (Holds(&child) && now - failed_ns_ < absl::ToInt64Nanoseconds(options_.max_hold)) {
        if (now - failed_ns_ > grace && !std::exchange(child.waited_for, true)) {
          Say(absl::StrCat("process ", i, " is still writing; waiting up to ",
                           absl::FormatDuration(options_.max_hold), " for it"));
        }
        child.kill_at_ns = now + grace;
      }
      if (now <= child.kill_at_ns) continue;
      kill(child.pid, SIGKILL);
      child.kill_at_ns = kNever;
      ++num_late;
    }
    if (num_late == 0) return;
    Say(absl::StrCat(num_late, " processes were still running ",
                     absl::FormatDuration(options_.grace), " later; killing them"));
  }

  // True if the last report says that it holds.
  static bool Holds(Child* child) {
    char state;
    while (read(child->holds.fd(), &state, 1) == 1) {
      if (state == '0' || state == '1') child->held = state == '1';
    }
    return child->held;
  }

  // Reports the first failures. If several are found at once, their order is unknown. A process
  // that was ended by a signal takes precedence, because it did not exit in response to the others.
  void Reap() {
    const bool told = exit_code_ != 0;
    bool by_signal = false;
    for (size_t i = 0; i < children_.size(); ++i) {
      if (!children_[i].running) continue;
      const Ending ending = EndingOf(children_[i].pid);
      children_[i].running = ending.runs;
      if (ending.runs || ending.code == 0 || told) continue;
      // An exit with this code means that the process saved because of the signal, and has reported
      // it.
      if (passed_on_ == 0 || ending.code != 128 + passed_on_ || ending.by_signal) {
        Say(absl::StrCat("process ", i, " (pid ", children_[i].pid, ") ", ending.words));
      }
      if (exit_code_ != 0 && (by_signal || !ending.by_signal)) continue;
      exit_code_ = ending.code;
      by_signal = ending.by_signal;
      failed_ns_ = MonotonicNow();
      for (Child& child : children_) {
        child.kill_at_ns = failed_ns_ + absl::ToInt64Nanoseconds(options_.grace);
      }
    }
  }

  struct Ending {
    bool runs = false;
    int code = 0;
    bool by_signal = false;
    std::string words;
  };
  static Ending EndingOf(pid_t pid) {
    int status = 0;
    pid_t ended;
    do {
      ended = waitpid(pid, &status, WNOHANG);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0) return {true, 0, false, ""};
    if (ended < 0) {
      return {false, 1, false,
              absl::StrCat("has ended with unknown status: ", std::strerror(errno))};
    }
    if (WIFSIGNALED(status)) {
      const int number = WTERMSIG(status);
      return {false, 128 + number, true, absl::StrCat("was ended by SIG", sigabbrev_np(number))};
    }
    const int code = WEXITSTATUS(status);
    return {false, code, false, absl::StrCat("has failed with exit code ", code)};
  }

  int NumRunning() const {
    int running = 0;
    for (const Child& child : children_) running += child.running ? 1 : 0;
    return running;
  }

  const LaunchOptions& options_;
  std::string master_ = "127.0.0.1";
  Socket listener_;
  std::string job_;
  const JobSecret secret_ = JobSecret::Random();
  std::vector<Child> children_;
  int exit_code_ = 0;
  int passed_on_ = 0;         // the last signal forwarded to all
  Nanos failed_ns_ = kNever;  // time of the first failure
  struct sigaction old_int_, old_term_, old_hup_, old_child_;
};

}  // namespace

absl::StatusOr<int> LaunchLocalProcesses(const LaunchOptions& options) {
  if (options.num_processes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("requested ", options.num_processes, " processes; at least 1 is needed"));
  }
  if (options.num_processes > MaxLocalProcesses()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc=", options.num_processes, ": at most ", MaxLocalProcesses(),
        " processes can share the ", FindUsableCpus().count, " usable cores of this machine"));
  }
  if (options.network != nullptr && options.num_processes > options.network->num_hosts()) {
    return absl::InvalidArgumentError(
        absl::StrCat("requested ", options.num_processes, " processes on a network of ",
                     options.network->num_hosts(), " hosts; each has one process"));
  }
  return Launcher(options).Run();
}

}  // namespace dpipe
