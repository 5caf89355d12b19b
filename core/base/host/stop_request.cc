#include "core/base/host/stop_request.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"

namespace dpipe {
namespace {

struct KnownSignal {
  int number;
  const char* name;
};
constexpr std::array<KnownSignal, 3> kSignals = {
    {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}};

// Written by the handler, which may write nothing but a sig_atomic_t.
volatile std::sig_atomic_t noted_signal = 0;
// Read by the handler; without locks.
std::atomic<const char*> acknowledgment_text = nullptr;
bool to_terminal = false;

const char* NameOf(int number) {
  for (const KnownSignal& known : kSignals) {
    if (known.number == number) return known.name;
  }
  return nullptr;
}

// Uses only async-signal-safe functions.
void Write(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

void Note(int number) {
  const int old_errno = errno;
  if (noted_signal == 0) {
    noted_signal = number;
    if (const char* const text = acknowledgment_text) {
      // The terminal may show a progress line followed by "^C".
      if (to_terminal) Write("\r\x1b[K");
      Write(NameOf(number));
      Write(": ");
      Write(text);
      Write("\n");
    }
  } else if (number != SIGHUP) {
    ::signal(number, SIG_DFL);
    ::raise(number);  // blocked until the handler returns
  }
  errno = old_errno;
}

}  // namespace

StopRequest::StopRequest(const char* acknowledgment) {
  noted_signal = 0;
  acknowledgment_text = acknowledgment;
  to_terminal = ::isatty(STDERR_FILENO) != 0;
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_handler = Note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // interrupted reads and writes are restarted
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i].number, nullptr, &old_[i]);
    if (kSignals[i].number == SIGHUP && old_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i].number, &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i].number, &old_[i], nullptr);
}

void StopRequest::Acknowledge(const char* acknowledgment) { acknowledgment_text = acknowledgment; }

const char* StopRequest::signal() const { return NameOf(noted_signal); }

bool SignalWasNoted() { return noted_signal != 0; }

int SignalNamed(absl::string_view text) {
  for (const KnownSignal& known : kSignals) {
    if (absl::StartsWith(text, known.name)) return known.number;
  }
  return 0;
}

}  // namespace dpipe
