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
// and go on, so that one run names the problems of several keys: status() returns them at the end,
// "unet/config.json: 'layers_per_block' is [1,2], expected a positive integer".
class ComponentConfig {
 public:
  // `source` is the file's name, for messages. The text is JSON as ParseJson
  // (core/base/text/json.h) reads it. InvalidArgument if it is not, or is not an object.
  static absl::StatusOr<ComponentConfig> Parse(const std::string& text, const std::string& source);
  static absl::StatusOr<ComponentConfig> Read(const std::string& path);
  ComponentConfig(ComponentConfig&&) noexcept;
  ComponentConfig& operator=(ComponentConfig&&) noexcept;
  ~ComponentConfig();

  // Missing or null.
  bool Absent(const std::string& key) const;
  // There, with the value null: for keys where that means something else than a missing key.
  bool IsNull(const std::string& key) const;
  // Integers are > 0 and at most 1,048,576, numbers of layers at most 1,000.
  int64_t PositiveInt(const std::string& key, int64_t default_value);
  // A list of equal integers stands for one of them.
  int64_t EqualPositiveInts(const std::string& key, int64_t default_value);
  // Finite.
  double Number(const std::string& key, double default_value);
  bool Bool(const std::string& key, bool default_value);
  std::string String(const std::string& key, const std::string& default_value);
  // Positive integers, at least one.
  std::vector<int64_t> PositiveInts(const std::string& key, std::vector<int64_t> default_value);
  // As above, where a single integer stands for `count` equal ones; `count` of them.
  std::vector<int64_t> PerBlock(const std::string& key, int64_t default_value, size_t count);
  std::vector<std::string> Strings(const std::string& key, std::vector<std::string> default_value);

  // Notes a problem where the key is there with another value than these: features that are not
  // supported. Values are JSON: "null", "false", "\"silu\"". null also allows a missing key.
  void Expect(const std::string& key, const std::vector<std::string>& supported);
  // The same, where a list stands for its entries.
  void ExpectEach(const std::string& key, const std::vector<std::string>& supported);
  // InvalidArgument, with both values, if the key is there with another string: another kind of
  // component, whose other keys are not worth reading.
  absl::Status CheckKind(const std::string& key, const std::string& supported) const;
  // Notes a problem in own words, of a key's value.
  void AddProblem(const std::string& key, const std::string& what);

  // OK, or InvalidArgument with the file and its first problems: a line of them, at most five.
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
