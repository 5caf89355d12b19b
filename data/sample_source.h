// The training view of a data set: numbered samples, each an image with captions and an optional
// condition picture. Implemented by folders and by tar shards.
#ifndef DPIPE_DATA_SAMPLE_SOURCE_H_
#define DPIPE_DATA_SAMPLE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe {

// Immutable and thread-safe: sample i is always the same. Samples can be read in any order at the
// same cost, because the order of training depends on (seed, epoch) alone and not on storage.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual int32_t size() const = 0;  // at least 1
  // The user's name for the data set, for messages: its folder or shard pattern.
  virtual const std::string& name() const = 0;
  // The origin of sample `index`: "/data/cats/7.png", or "/data/cats-03.tar: 7.jpg".
  virtual std::string image_path(int32_t index) const = 0;
  // True if the sample has a condition picture.
  virtual bool has_condition(int32_t index) const = 0;

  // A hash that is equal for the same samples in the same order, in any location. Tells whether a
  // resumed run, or another host, has the data that the run began with. Covers names relative to
  // the data set, file sizes in bytes, and captions if opening the data set reads them. Does not
  // cover pixels or times.
  virtual std::string fingerprint() const = 0;
  // Notes for the user from opening the data set, such as ignored files. Each is a sentence without
  // its full stop.
  virtual std::vector<std::string> notes() const { return {}; }
  // The same for findings from loading samples so far that are not errors: see SampleFindings.
  virtual std::vector<std::string> findings() const { return {}; }

  // Each of these reads the storage again. Errors name the file.
  // Returns all captions of the sample, at least one.
  virtual absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t index) const = 0;
  virtual absl::StatusOr<Image> LoadImage(int32_t index) const = 0;
  // Returns the size of LoadImage's image, from the file's headers.
  virtual absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const = 0;
  // Returns a text that changes only with the image file: path, size and modification time.
  virtual absl::StatusOr<std::string> LoadIdentity(int32_t index) const = 0;
  // Returns NotFound if the sample has no condition picture.
  virtual absl::StatusOr<Image> LoadCondition(int32_t index) const = 0;
};

// Returns the name of sample `index` relative to the data set: "7.png" for "/data/cats/7.png" in
// the folder "/data/cats", and "cats-03.tar: 7.jpg" for "/data/cats-03.tar: 7.jpg" in
// "/data/cats-*.tar".
std::string RelativePath(const SampleSource& source, int32_t index);

// Calls `read(i)` for each i in [0, count) from up to 8 threads. For calls that wait for storage
// and not for cores.
void ReadInParallel(int64_t count, const std::function<void(int64_t i)>& read);

}  // namespace dpipe

#endif  // DPIPE_DATA_SAMPLE_SOURCE_H_
