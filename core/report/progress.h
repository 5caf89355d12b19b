// A progress line for long jobs.
//
//   [sd_pipeline] measuring 1f1b repeat 2/5 · step 12/20 · 142 img/s · loss 0.8123 · ETA 34 s
//
// On a terminal the line is redrawn in place. In a log, it is written from time to time and at the
// start of each phase.
#ifndef DPIPE_CORE_REPORT_PROGRESS_H_
#define DPIPE_CORE_REPORT_PROGRESS_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/time.h"

namespace dpipe::report {

// The displayed state; unset parts are omitted.
struct ProgressState {
  std::string phase;   // "measuring"
  std::string detail;  // "1f1b"; shown after the phase, but a new detail is not a new phase
  int repeat = 0;      // from 1; 0: not shown
  int num_repeats = 0;
  int step = 0;  // from 1; 0: not shown
  int num_steps = 0;
  double images_per_second = -1;  // negative or NaN: not shown
  double loss = -1;               // negative or NaN: not shown
  std::string tail;               // shown last: a narrow terminal cuts it first
  // Progress of the whole job, in [0, 1]; determines the estimated remaining time. Negative: not
  // shown.
  double fraction_done = -1;
};

// Not thread-safe: one thread reports.
class Progress {
 public:
  struct Options {
    std::string title;                               // "sd_pipeline"
    bool is_terminal = false;                        // redraw in place
    int terminal_width = 100;                        // cells; longer lines are cut
    Nanos redraw_interval_ns = 50 * kNanosPerMilli;  // terminal: minimum time between redraws
    Nanos log_interval_ns = 10 * kNanosPerSecond;    // log: minimum time between lines of a phase
    std::function<void(absl::string_view)> write;    // receives the characters
    std::function<Nanos()> clock = MonotonicNow;
  };

  explicit Progress(Options options);
  ~Progress();  // calls Finish()

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `state`, unless the previous line is too recent and belongs to the same phase.
  void Update(const ProgressState& state);

  // Prints a permanent line, above the progress line on a terminal. `line` has no newline.
  void Message(absl::string_view line);

  // Removes the progress line from a terminal. Updates may follow.
  void Finish();

 private:
  void Draw(const std::string& line);

  Options options_;
  Nanos started_ns_;
  bool has_written_ = false;
  Nanos last_written_ns_ = 0;
  std::string last_phase_;
  std::string drawn_;  // the line on the terminal; "" if none
};

// Returns options that write to standard error, with its width if it is a terminal.
Progress::Options StandardErrorProgress(const std::string& title);

// Returns the line for `state`, `elapsed_ns` after the job began.
std::string ProgressText(const std::string& title, const ProgressState& state, Nanos elapsed_ns);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PROGRESS_H_
