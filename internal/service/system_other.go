// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package service

func homeDirectory() string { return "" }

func darwinKernel() int { return 0 }
