// Image sizes of a data set, read from the files' headers and remembered between runs.
//
// A second start then checks each file's size and modification time, and opens none. The format of
// the file, with E the CRC-32C of the lines above it:
//
//   dpipe image sizes 1
//   <fingerprint of SampleSource::LoadIdentity, 32 hexadecimal digits> <width> <height>
//   ...
//   end <E, 8 hexadecimal digits>
//
// A file that is damaged or has another format counts as missing, and a changed image has another
// identity. So losing the file only costs reading the headers again.
#ifndef DPIPE_DATA_ORDER_IMAGE_SIZES_H_
#define DPIPE_DATA_ORDER_IMAGE_SIZES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"
#include "data/sample_source.h"

namespace dpipe {

// Not thread-safe.
class ImageSizes {
 public:
  // Loads the sizes that earlier runs saved at `path`. If it is empty, nothing is saved.
  explicit ImageSizes(std::string path = "");

  // Returns the size of each sample in order, like LoadImageSize. Errors are not remembered.
  std::vector<absl::StatusOr<ImageSize>> Read(const SampleSource& source);
  // The same for the samples `indices`.
  std::vector<absl::StatusOr<ImageSize>> Read(const SampleSource& source,
                                              const std::vector<int32_t>& indices);

  // Replaces the file by the sizes that Read returned, if any of them is new. Returns the errors of
  // WriteFileAtomically.
  absl::Status Save() const;

  // The number of headers read so far.
  int64_t num_read() const { return num_read_; }

 private:
  struct Entry {
    ImageSize size;
    bool used = false;  // by Read
  };

  // Loads the entries of the file, or none if it is damaged.
  void Parse(const std::string& text);

  const std::string path_;
  std::unordered_map<std::string, Entry> entries_;  // by fingerprint
  int64_t num_read_ = 0;
  bool has_new_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_IMAGE_SIZES_H_
