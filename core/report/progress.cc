#include "core/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/text_width.h"

namespace dpipe::report {
namespace {

// Below this share of the job the remaining time cannot be estimated.
constexpr double kMinFractionForEta = 0.02;

std::string PhaseText(const ProgressState& state) {
  std::vector<std::string> words;
  if (!state.phase.empty()) words.push_back(state.phase);
  if (!state.detail.empty()) words.push_back(state.detail);
  if (state.repeat > 0) {
    words.push_back(absl::StrCat("repeat ", state.repeat, "/", state.num_repeats));
  }
  return absl::StrJoin(words, " ");
}

// Returns "34 s", "2 min 05 s" or "1 h 03 min".
std::string RemainingText(double seconds) {
  const int64_t whole = std::max<int64_t>(0, std::llround(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ProgressText(const std::string& title, const ProgressState& state, Nanos elapsed_ns) {
  std::vector<std::string> parts;
  const std::string phase = PhaseText(state);
  if (!phase.empty()) parts.push_back(phase);
  if (state.step > 0) parts.push_back(absl::StrCat("step ", state.step, "/", state.num_steps));
  if (state.images_per_second >= 0) {
    parts.push_back(absl::StrFormat("%.*f img/s", state.images_per_second < 10 ? 2 : 0,
                                    state.images_per_second));
  }
  if (state.loss >= 0) parts.push_back(absl::StrFormat("loss %.4f", state.loss));
  if (state.fraction_done >= kMinFractionForEta && state.fraction_done <= 1) {
    const double elapsed_s = static_cast<double>(elapsed_ns) / kNanosPerSecond;
    parts.push_back("ETA " +
                    RemainingText(elapsed_s * (1 - state.fraction_done) / state.fraction_done));
  }
  if (!state.tail.empty()) parts.push_back(state.tail);
  return absl::StrCat("[", title, "] ", absl::StrJoin(parts, " · "));
}

Progress::Progress(Options options) : options_(std::move(options)), started_ns_(options_.clock()) {}

Progress::~Progress() { Finish(); }

void Progress::Update(const ProgressState& state) {
  const Nanos now = options_.clock();
  const Nanos interval =
      options_.is_terminal ? options_.redraw_interval_ns : options_.log_interval_ns;
  if (has_written_ && state.phase == last_phase_ && now - last_written_ns_ < interval) return;
  has_written_ = true;
  last_phase_ = state.phase;
  last_written_ns_ = now;
  const std::string line = ProgressText(options_.title, state, now - started_ns_);
  if (options_.is_terminal) {
    Draw(TruncateToWidth(line, options_.terminal_width - 1));
  } else {
    options_.write(line + "\n");
  }
}

void Progress::Message(absl::string_view line) {
  const std::string drawn = std::exchange(drawn_, "");
  // "\x1b[K" erases the rest of the line, since the progress line may have been longer.
  options_.write(absl::StrCat(drawn.empty() ? "" : "\r\x1b[K", line, "\n"));
  if (!drawn.empty()) Draw(drawn);
}

void Progress::Finish() {
  if (!drawn_.empty()) options_.write("\r\x1b[K");
  drawn_.clear();
}

void Progress::Draw(const std::string& line) {
  options_.write(absl::StrCat("\r", line, "\x1b[K"));
  drawn_ = line;
}

Progress::Options StandardErrorProgress(const std::string& title) {
  Progress::Options options;
  options.title = title;
  options.is_terminal = isatty(STDERR_FILENO) != 0;
  winsize size;
  if (options.is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.terminal_width = size.ws_col;
  }
  options.write = [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return options;
}

}  // namespace dpipe::report
