// Event files for TensorBoard: scalars, images and texts by tag and step.
#ifndef DPIPE_CORE_REPORT_TENSORBOARD_EVENT_WRITER_H_
#define DPIPE_CORE_REPORT_TENSORBOARD_EVENT_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/files/append_file.h"
#include "core/base/status.h"
#include "core/report/tensorboard/event.pb.h"

namespace dpipe::report::tensorboard {

// TFRecord framing: the layout of records in TensorFlow's files.

// Returns the CRC-32C, rotated right by 15 bits plus a constant. Masking is needed because a plain
// CRC is weak on data that contains checksums.
uint32_t MaskedCrc32c(absl::string_view bytes);

// Returns the record as stored in a file, little-endian: 8 bytes of length, its checksum in 4
// bytes, the data, its checksum in 4 bytes.
std::string FrameRecord(absl::string_view bytes);

// Returns the records in a file's content. Returns DataLoss, naming the record, if a checksum is
// wrong or a record is truncated.
absl::StatusOr<std::vector<std::string>> UnframeRecords(absl::string_view content);

// Not thread-safe. Flush reports write errors; unwritten data is retried later (see AppendFile).
class EventWriter {
 public:
  struct Options {
    std::string folder;      // created if missing
    int64_t first_step = 0;  // if > 0: voids events of later steps in the folder's other files
    std::function<double()> clock;  // seconds since 1970; if empty, the system's
  };
  // Creates a new file, FOLDER/events.out.tfevents.SECONDS.HOST.NUMBER. Returns Unavailable if it
  // cannot be written.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(const Options& options);

  const std::string& path() const { return path_; }

  // Writes several tags of one step.
  void Scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // Writes a PNG image of this size.
  void Image(int64_t step, const std::string& tag, int width, int height, const std::string& png);
  // Writes a text, which TensorBoard shows as Markdown.
  void Text(int64_t step, const std::string& tag, const std::string& text);

  // Writes everything so far to the file.
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
