"""The broker's communication with the controller: requests, registration, reports."""
