// Sizes of a data set's images, from the files' headers, remembered from run to run.
//
// A second start then looks at each file's size and time of change, and opens none. The file of
// sizes, where E is the CRC-32C of the lines above it:
//
//   dpipe image sizes 1
//   <fingerprint of SampleSource::LoadIdentity, 32 hexadecimal digits> <width> <height>
//   ...
//   end <E, 8 hexadecimal digits>
//
// What is damaged or of another format counts as not there; an image that has changed has another
// identity. So the worst that a lost file costs is reading headers again.
#ifndef DPIPE_DATA_IMAGE_SIZES_H_
#define DPIPE_DATA_IMAGE_SIZES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/sample_source.h"

namespace dpipe {

// Not thread-safe.
class ImageSizes {
 public:
  // Takes what earlier runs have left at `path`. Empty: nothing is remembered beyond this object.
  explicit ImageSizes(std::string path = "");

  // Returns the size of each sample in order, as LoadImageSize has it. Errors are not remembered.
  std::vector<absl::StatusOr<ImageSize>> Read(const SampleSource& source);
  // The same for the samples `indices`.
  std::vector<absl::StatusOr<ImageSize>> Read(const SampleSource& source,
                                              const std::vector<int32_t>& indices);

  // Replaces the file by the sizes that Read returned, if any of them was not in it yet. Errors of
  // WriteFileAtomically.
  absl::Status Save() const;

  // Headers read so far.
  int64_t num_read() const { return num_read_; }

 private:
  struct Entry {
    ImageSize size;
    bool used = false;  // by Read
  };

  // What the file holds; empty if it is not sound.
  void Parse(const std::string& text);

  const std::string path_;
  std::unordered_map<std::string, Entry> entries_;  // by fingerprint
  int64_t num_read_ = 0;
  bool has_new_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGE_SIZES_H_
