// Compares the groups' items by identity, so that a step with unchanged groups runs no Python for
// them.
#include "python/core/groups.hpp"

#include <bit>
#include <string>
#include <string_view>
#include <utility>

namespace stepfuse_python {

std::string rule_of(std::string_view message) {
  constexpr std::string_view kBefore = ": it must be ";
  constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"at least", ">="}, {"above", ">"}, {"at most", "<="}, {"below", "<"}};
  size_t from = message.find(kBefore);
  if (from == message.npos) return std::string(message);
  std::string rule(message.substr(from + kBefore.size()));
  for (auto [words, sign] : kSigns) {
    size_t at = rule.find(words);
    if (at != rule.npos) rule.replace(at, words.size(), sign);
  }
  return "a number " + rule;
}

namespace {

// Raises an error with the group, the value and the rule.
[[noreturn]] void refuse(PyObject* error, size_t index, PyObject* key, Py_ssize_t place,
                         PyObject* value, const std::string& rule) {
  PyErr_Clear();
  std::string item = place < 0 ? "" : "[" + std::to_string(place) + "]";
  PyErr_Format(error, "param_groups[%zu]: %S%s: expected %s; got %R", index, key, item.c_str(),
               rule.c_str(), value);
  throw Raised();
}

bool is_params(PyObject* key) { return PyUnicode_CompareWithASCIIString(key, "params") == 0; }

}  // namespace

void Groups::number(PyObject* step, int arg, int group, size_t index, PyObject* key,
                    Py_ssize_t place) {
  numbers_.push_back({Ref::borrow(step), arg, group, index, Ref::borrow(key), place, std::nullopt});
}

void Groups::watch(PyObject* groups, PyObject* choices, PyObject* free) {
  free_ = Ref::borrow(free);
  said_ = Ref::borrow(choices);
  remember(groups);
}

bool Groups::is_free(PyObject* key) const {
  int found = PySequence_Contains(free_.get(), key);
  checked(found);
  return found != 0;
}

void Groups::remember(PyObject* groups) {
  groups_.clear();
  for_each(groups, [&](PyObject* group) {
    std::vector<Item> items;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(group, &at, &key, &value) != 0) {
      bool compared = !is_params(key) && !is_free(key);
      items.push_back({Ref::borrow(key), compared ? Ref::borrow(value) : Ref(), value == Py_None});
    }
    groups_.push_back(std::move(items));
  });
}

bool Groups::same_items(PyObject* groups) const {
  size_t index = 0;
  bool same = true;
  for_each(groups, [&](PyObject* group) {
    if (!same || index >= groups_.size()) {
      same = false;
      return;
    }
    auto item = groups_[index].begin();
    auto end = groups_[index++].end();
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t at = 0;
    while (same && PyDict_Next(group, &at, &key, &value) != 0) {
      same = item != end && item->key.get() == key && item->is_none == (value == Py_None) &&
             (item->value.get() == nullptr || item->value.get() == value);
      if (same) ++item;
    }
    same = same && item == end;
  });
  return same && index == groups_.size();
}

bool Groups::same(PyObject* groups, PyObject* choices) {
  if (said_.get() == nullptr) return false;
  if (same_items(groups)) return true;
  Ref now = checked(PyObject_CallNoArgs(choices));
  int equal = PyObject_RichCompareBool(now.get(), said_.get(), Py_EQ);
  checked(equal);
  if (equal != 0) remember(groups);
  return equal != 0;
}

void Groups::set(PyObject* groups) {
  for (Number& number : numbers_) {
    Ref group = checked(PySequence_GetItem(groups, static_cast<Py_ssize_t>(number.index)));
    Ref value = checked(PyObject_GetItem(group.get(), number.key.get()));
    if (number.place >= 0) {
      Ref item(PySequence_GetItem(value.get(), number.place));
      if (item.get() == nullptr) {
        refuse(PyExc_ValueError, number.index, number.key.get(), -1, value.get(),
               "at least " + std::to_string(number.place + 1) + " numbers");
      }
      value = std::move(item);
    }
    double now = PyFloat_AsDouble(value.get());  // also accepts tensors
    if (now == -1.0 && PyErr_Occurred() != nullptr) {
      for (PyObject* error : {PyExc_TypeError, PyExc_ValueError}) {
        if (PyErr_ExceptionMatches(error) == 0) continue;
        refuse(error, number.index, number.key.get(), number.place, value.get(), "a number");
      }
      throw Raised();
    }
    if (number.last == std::bit_cast<uint64_t>(now)) continue;
    // The library has no rules for a user's formula, whose learning rate may be named differently.
    bool is_rate = PyUnicode_CompareWithASCIIString(number.key.get(), "lr") == 0;
    if (is_rate && !(now >= 0)) {
      refuse(PyExc_ValueError, number.index, number.key.get(), -1, value.get(), "a number >= 0");
    }
    stepfuse_args* args = self_of<Step>(number.step.get()).args.get();
    if ((number.group < 0
             ? stepfuse_args_set(args, number.arg, now)
             : stepfuse_args_set_member(args, number.arg, number.group, now)) != STEPFUSE_OK) {
      refuse(PyExc_ValueError, number.index, number.key.get(), number.place, value.get(),
             rule_of(stepfuse_error_message()));
    }
    number.last = std::bit_cast<uint64_t>(now);
  }
}

int Groups::visit(visitproc visit, void* arg) const {
  for (const std::vector<Item>& items : groups_) {
    for (const Item& item : items) {
      Py_VISIT(item.key.get());
      Py_VISIT(item.value.get());
    }
  }
  for (const Number& number : numbers_) Py_VISIT(number.step.get());
  Py_VISIT(said_.get());
  return 0;
}

void Groups::clear() {
  auto groups = std::exchange(groups_, {});
  auto numbers = std::exchange(numbers_, {});
  Ref said = std::move(said_);
}

}  // namespace stepfuse_python
