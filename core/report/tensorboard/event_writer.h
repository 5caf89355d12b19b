// Event files that TensorBoard shows: scalars, images and texts by tag and step.
#ifndef DPIPE_CORE_REPORT_TENSORBOARD_EVENT_WRITER_H_
#define DPIPE_CORE_REPORT_TENSORBOARD_EVENT_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/append_file.h"
#include "core/base/status.h"
#include "core/report/tensorboard/event.pb.h"

namespace dpipe::report::tensorboard {

// Not thread-safe. What cannot be written shows in Flush, and is written when that is possible
// again (see AppendFile).
class EventWriter {
 public:
  struct Options {
    std::string folder;      // made if it is not there
    int64_t first_step = 0;  // above 0: events of later steps in the folder's other files are void
    std::function<double()> clock;  // seconds since 1970; empty: the system's
  };
  // Begins a file of its own, FOLDER/events.out.tfevents.SECONDS.HOST.NUMBER, where no other is.
  // Unavailable where it cannot be written.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(const Options& options);

  const std::string& path() const { return path_; }

  // Several tags of one step at once.
  void Scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // `png`: an encoded picture of that size.
  void Image(int64_t step, const std::string& tag, int width, int height, const std::string& png);
  // Shown as Markdown.
  void Text(int64_t step, const std::string& tag, const std::string& text);

  // Everything so far is in the file.
  absl::Status Flush();

 private:
  explicit EventWriter(const Options& options) : options_(options) {}
  double Now() const;
  void Write(Event event);

  const Options options_;
  std::string path_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace dpipe::report::tensorboard

#endif  // DPIPE_CORE_REPORT_TENSORBOARD_EVENT_WRITER_H_
