// TFRecord framing: how records follow each other in a file of TensorFlow's kind.
#ifndef DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_
#define DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::report::tensorboard {

// CRC-32C, rotated right by 15 bits and shifted by a constant: a checksum of data that contains
// checksums is poor without.
uint32_t MaskedCrc32c(absl::string_view bytes);

// The record as it stands in the file: its length in 8 bytes, their checksum in 4, the bytes, their
// checksum in 4; little-endian.
std::string FrameRecord(absl::string_view bytes);

// The records of a file's content. DataLoss, naming the record, for a wrong checksum or a record
// that is cut off.
absl::StatusOr<std::vector<std::string>> UnframeRecords(absl::string_view content);

}  // namespace dpipe::report::tensorboard

#endif  // DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_
