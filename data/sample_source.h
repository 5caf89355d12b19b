// A data set as training sees it: numbered samples, each an image with a caption and, where the
// data set has them, a condition picture. Folders and tar shards are two kinds.
#ifndef DPIPE_DATA_SAMPLE_SOURCE_H_
#define DPIPE_DATA_SAMPLE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"

namespace dpipe {

// Immutable: sample i is the same whenever and by whomever it is asked for, and any number of
// threads may ask. Samples can be read in any order at the same cost, for the order of training is
// a function of (seed, epoch) alone and not of how the data set is stored.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual int32_t size() const = 0;  // at least 1
  // What a person calls the data set, for messages: its folder or shard pattern.
  virtual const std::string& name() const = 0;
  // Where sample `index` comes from: "/data/cats/7.png", or "/data/cats-03.tar: 7.jpg".
  virtual std::string image_path(int32_t index) const = 0;
  // Whether the sample has a condition picture.
  virtual bool has_condition(int32_t index) const = 0;

  // The same for the same samples in the same order, wherever they lie: what tells whether a run
  // goes on with, or another host has, the data that the run began with. Of the names relative to
  // the data set, of the sizes of files in bytes, and of the captions where opening the data set
  // reads them; not of pixels nor of times.
  virtual std::string fingerprint() const = 0;
  // What a person should know of what was found when the data set was opened, such as files that
  // are left out: a sentence each, without its full stop.
  virtual std::vector<std::string> notes() const { return {}; }
  // The same of what loading samples has brought up so far without being an error: see
  // SampleFindings.
  virtual std::vector<std::string> findings() const { return {}; }

  // Each reads the storage again. Errors name the file.
  // All captions of the sample, at least one.
  virtual absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t index) const = 0;
  virtual absl::StatusOr<Image> LoadImage(int32_t index) const = 0;
  // What LoadImage's image measures, from the file's headers.
  virtual absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const = 0;
  // Stays the same for as long as the image file is the same: path, size and time of change.
  virtual absl::StatusOr<std::string> LoadIdentity(int32_t index) const = 0;
  // NotFound for a sample that has none.
  virtual absl::StatusOr<Image> LoadCondition(int32_t index) const = 0;
};

// The name of sample `index` relative to the data set: "7.png" of "/data/cats/7.png" in the folder
// "/data/cats", "cats-03.tar: 7.jpg" of "/data/cats-03.tar: 7.jpg" in "/data/cats-*.tar".
std::string RelativePath(const SampleSource& source, int32_t index);

// Calls `read(i)` for each i in [0, count) from several threads, which wait for storage and not for
// cores.
void ReadInParallel(int64_t count, const std::function<void(int64_t i)>& read);

}  // namespace dpipe

#endif  // DPIPE_DATA_SAMPLE_SOURCE_H_
