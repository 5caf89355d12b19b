// Tar shards of images with captions, in WebDataset's layout: members 000.jpg, 000.txt, 000.json
// with the same name up to the first dot of its last part are one sample. Members whose names begin
// with a dot, as "._000.jpg" that macOS adds, are left out.
//
//   image      .jpg .jpeg .png .webp
//   caption    .txt, or .caption, or .json: its caption column
//   condition  .cond.png or .conditioning.png
// Captions are those that CaptionText makes of what is there. Other members are left alone. Samples
// are numbered shard by shard, in the order of their first members.
//
// The index is built when the data set is opened, from the headers alone: per sample some 150 bytes
// and its key.
#ifndef DPIPE_DATA_TAR_DATASET_H_
#define DPIPE_DATA_TAR_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image_decode.h"
#include "data/sample_source.h"
#include "data/tar_index.h"

namespace dpipe {

struct TarDatasetOptions {
  // The field of .json members that has the caption; empty: "caption" or else "text".
  std::string caption_column;
  // Of samples that have none: no caption's member, or no such field in it, or null there. Without
  // it, loading them is an error.
  std::optional<std::string> default_caption;
  DecodeLimits decode_limits;
  TarLimits tar_limits;  // of each shard
  int64_t max_samples = 200'000'000;
};

class TarDataset final : public SampleSource {
 public:
  // `pattern`: see FindShards. InvalidArgument, naming the shard and member: a shard that is
  // damaged (see ReadTarIndex), a member that occurs twice, no image at all. A sample whose caption
  // is missing or whose files cannot be read is in the list; loading it is an error.
  static absl::StatusOr<std::unique_ptr<TarDataset>> Open(const std::string& pattern,
                                                          const TarDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return pattern_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override;
  // Of what the index has: names and sizes of members, not what captions say.
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override;
  absl::StatusOr<std::string> LoadCaption(int32_t index) const override;
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

  int num_shards() const { return static_cast<int>(shards_.size()); }
  // Keys that have members, but no image.
  int64_t num_keys_without_image() const { return num_keys_without_image_; }

 private:
  enum Part { kImage, kCaption, kJson, kCondition, kNumParts };
  struct Place {
    int64_t offset = 0;
    int64_t size = -1;  // -1: there is none
    const char* extension = "";
  };
  // What a member is by its extension, in lower case; of kNumParts where it is nothing.
  struct Kind {
    const char* extension;
    Part part;
  };
  struct Sample {
    int32_t shard = 0;
    std::string key;
    Place parts[kNumParts];
  };

  TarDataset(std::string pattern, const TarDatasetOptions& options)
      : pattern_(std::move(pattern)), options_(options) {}
  absl::Status AddShard(const std::string& path);
  void TakeFingerprint();
  absl::StatusOr<std::string> CaptionInJson(const Sample& sample) const;
  static Kind KindOf(const std::string& extension);
  absl::Status AddMember(const TarMember& member, const Kind& kind, Sample* sample);
  absl::StatusOr<std::string> Read(const Sample& sample, Part part, int64_t max_bytes) const;
  // "shard.tar: key.jpg", for messages.
  std::string Describe(const Sample& sample, Part part) const;

  std::string pattern_;
  TarDatasetOptions options_;
  std::vector<std::string> shards_;
  std::vector<Sample> samples_;
  int64_t num_keys_without_image_ = 0;
  int64_t num_hidden_ = 0;  // members
  std::string fingerprint_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_TAR_DATASET_H_
