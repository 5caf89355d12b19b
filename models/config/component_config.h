// Reads a component's config.json (diffusers, transformers) key by key.
#ifndef DPIPE_MODELS_CONFIG_COMPONENT_CONFIG_H_
#define DPIPE_MODELS_CONFIG_COMPONENT_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// Getters return a key's value, or the default if the key is missing or null. They collect problems
// and go on, so that one run reports the problems of several keys. status() returns them at the
// end: "unet/config.json: 'layers_per_block' is [1,2], expected a positive integer".
class ComponentConfig {
 public:
  // `source` is the file's name, for messages. Accepts the JSON that ParseJson
  // (core/base/text/json.h) accepts. Returns InvalidArgument if the text is not such JSON or not an
  // object.
  static absl::StatusOr<ComponentConfig> Parse(const std::string& text, const std::string& source);
  static absl::StatusOr<ComponentConfig> Read(const std::string& path);
  ComponentConfig(ComponentConfig&&) noexcept;
  ComponentConfig& operator=(ComponentConfig&&) noexcept;
  ~ComponentConfig();

  // True if the key is missing or null.
  bool Absent(const std::string& key) const;
  // True if the key is present with the value null, for keys whose null differs from a missing key.
  bool IsNull(const std::string& key) const;
  // Integers must be > 0 and at most 1,048,576; numbers of layers at most 1,000.
  int64_t PositiveInt(const std::string& key, int64_t default_value);
  // Also accepts a list of equal integers.
  int64_t EqualPositiveInts(const std::string& key, int64_t default_value);
  // Accepts finite numbers only.
  double Number(const std::string& key, double default_value);
  bool Bool(const std::string& key, bool default_value);
  std::string String(const std::string& key, const std::string& default_value);
  // A non-empty list of positive integers.
  std::vector<int64_t> PositiveInts(const std::string& key, std::vector<int64_t> default_value);
  // Returns `count` positive integers. The key holds a list of them, or one integer for all.
  std::vector<int64_t> PerBlock(const std::string& key, int64_t default_value, size_t count);
  // A list, which may be empty, of indices below `count`: true for those in it.
  std::vector<bool> Indices(const std::string& key, int64_t count);
  std::vector<std::string> Strings(const std::string& key, std::vector<std::string> default_value);

  // Adds a problem if the key is present with a value other than these; used to reject unsupported
  // features. Values are JSON: "null", "false", "\"silu\"". A missing key is always allowed.
  void Expect(const std::string& key, const std::vector<std::string>& supported);
  // The same, but also accepts a list in which every entry is supported.
  void ExpectEach(const std::string& key, const std::vector<std::string>& supported);
  // Returns InvalidArgument with both values if the key is present with another value. The file
  // then describes another kind of component, so its other keys are not worth reading.
  absl::Status CheckKind(const std::string& key, const std::string& supported) const;
  // Adds a problem with the value of `key`: "'key' is <value>, <what>".
  void AddProblem(const std::string& key, const std::string& what);

  // Returns OK, or InvalidArgument with the file and its first problems: at most five, on one line.
  absl::Status status() const;

 private:
  struct Document;  // the JSON library stays out of this header
  explicit ComponentConfig(std::unique_ptr<Document> document);

  std::unique_ptr<Document> document_;
  std::string source_;
  std::vector<std::string> problems_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONFIG_COMPONENT_CONFIG_H_
