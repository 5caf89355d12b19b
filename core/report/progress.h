// One line that says how far a long job is.
//
//   [sd_pipeline] measuring 1f1b repeat 2/5 · step 12/20 · 142 img/s · loss 0.8123 · ETA 34 s
//
// On a terminal the line is redrawn in place; in a log, where that would be a mess, it is written
// in full from time to time and whenever the job enters another phase.
#ifndef DPIPE_CORE_REPORT_PROGRESS_H_
#define DPIPE_CORE_REPORT_PROGRESS_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/time.h"

namespace dpipe::report {

// What is shown; parts that are not set are left out.
struct ProgressState {
  std::string phase;   // "measuring"
  std::string detail;  // "1f1b"; shown after the phase, but another one is no other phase
  int repeat = 0;      // from 1; 0: not shown
  int num_repeats = 0;
  int step = 0;  // from 1; 0: not shown
  int num_steps = 0;
  double images_per_second = -1;  // negative or NaN: not shown
  double loss = -1;               // negative or NaN: not shown
  // Of the whole job, in [0, 1]; the remaining time is estimated from it. Negative: not shown.
  double fraction_done = -1;
};

// Not thread-safe: one thread reports.
class Progress {
 public:
  struct Options {
    std::string title;                               // "sd_pipeline"
    bool is_terminal = false;                        // redraw in place
    int terminal_width = 100;                        // cells; longer lines are cut
    Nanos redraw_interval_ns = 50 * kNanosPerMilli;  // terminal: at most this often
    Nanos log_interval_ns = 10 * kNanosPerSecond;    // log: at most this often within a phase
    std::function<void(absl::string_view)> write;    // where the characters go
    std::function<Nanos()> clock = MonotonicNow;
  };

  explicit Progress(Options options);
  ~Progress();  // Finish()

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `state`, unless the line before it is too recent and of the same phase.
  void Update(const ProgressState& state);

  // A line of its own that stays: above the progress line on a terminal. `line` without newline.
  void Message(absl::string_view line);

  // Removes the progress line from a terminal. Later updates are fine.
  void Finish();

 private:
  void Draw(const std::string& line);

  Options options_;
  Nanos started_ns_;
  bool has_written_ = false;
  Nanos last_written_ns_ = 0;
  std::string last_phase_;
  std::string drawn_;  // the line now on the terminal, "" if none
};

// Options that write to standard error, as a terminal of its width if it is one.
Progress::Options StandardErrorProgress(const std::string& title);

// The line for `state`, `elapsed_ns` after the job began.
std::string ProgressText(const std::string& title, const ProgressState& state, Nanos elapsed_ns);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PROGRESS_H_
